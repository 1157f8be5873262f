"""Every program in examples/ runs and prints what its expected file says.

After a change of an example: AOF2_UPDATE_EXPECTED=1 pytest tests/examples, and read
the difference.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALL = sorted((ROOT / "examples").glob("*.py"))
# Those with Spark need a JVM, which talks: tests/spark runs them.
EXAMPLES = [path for path in ALL if not path.name.startswith("spark_")]
EXPECTED = Path(__file__).parent / "expected"


def normalised(output: str) -> str:
    """Take out what differs from run to run: process ids."""
    return re.sub(r"\bprocess \d+", "process PID", output)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_is_expected(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", example],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert list(tmp_path.iterdir()) == [], "an example cleans up after itself"

    expected = EXPECTED / f"{example.stem}.txt"
    if os.environ.get("AOF2_UPDATE_EXPECTED"):
        expected.write_text(normalised(run.stdout))
    assert normalised(run.stdout) == expected.read_text()


def test_there_are_examples_and_each_is_listed_and_explained() -> None:
    assert len(EXAMPLES) >= 10
    readme = (ROOT / "examples" / "README.md").read_text()
    for example in ALL:
        assert f"`{example.name}`" in readme
        assert ast.get_docstring(ast.parse(example.read_text()))
    assert {path.stem for path in EXPECTED.glob("*.txt")} == {path.stem for path in EXAMPLES}
