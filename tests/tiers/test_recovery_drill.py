"""The drill of docs/operations.md, typed as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


@pytest.mark.usefixtures("credentials")
def test_the_recovery_drill_gets_every_record_back(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = re.search(r"## The recovery drill.*?```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    lines = block[1].replace("my-bucket", bucket).splitlines()
    script = [line for line in lines if not line.startswith("export AOF2_COLD_ENDPOINT")]
    assert len(script) >= 9
    (tmp_path / "some-file").write_text("".join(f"line {n}\n" for n in range(5000)))
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no damage" in done.stdout or "healthy" in done.stdout or "ok" in done.stdout.lower()
