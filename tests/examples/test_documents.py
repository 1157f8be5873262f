"""What the pages show works, and what is public is on the pages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import aof2
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_python_on_the_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    # Spark has tests of its own.
    program = "\n".join(block for block in blocks if "spark" not in block)
    assert "aof2.Aof.open" in program
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr
    assert "hello" in run.stdout


def test_every_public_name_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    listed = set(re.findall(r"auto(?:class|function|exception):: (\w+)", page))
    assert listed == set(aof2.__all__) - {"__version__"}
