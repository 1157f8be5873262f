"""The source distribution builds on its own: all that its lock file names is in it."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_lock_file_matches_what_is_in_the_source_distribution(tmp_path: Path) -> None:
    """A build from it would refuse another lock file, and with that every installation."""
    maturin = shutil.which("maturin", path=str(Path(sys.executable).parent))
    if maturin is None or shutil.which("cargo") is None:
        pytest.skip("maturin or cargo is missing: run `make test-python`")
    run([maturin, "sdist", "--out", str(tmp_path)], ROOT)
    (archive,) = tmp_path.glob("aof2-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    run(["cargo", "metadata", "--locked", "--format-version", "1"], tmp_path / archive.name[:-7])


def run(command: list[str], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
