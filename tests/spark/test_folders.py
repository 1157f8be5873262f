"""The folders of the connector: who may use whom."""

from __future__ import annotations

import ast
from pathlib import Path

import aof2.spark
import pytest

ROOT = Path(aof2.spark.__file__).parent
#: What hands out readers and writers, and may therefore use both.
ABOVE = {"__init__", "source"}


def imported_by(file: Path) -> set[str]:
    """The parts of `aof2.spark` that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    prefix = "aof2.spark."
    return {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)}


@pytest.mark.parametrize(("folder", "other"), [("read", "write"), ("write", "read")])
def test_reading_and_writing_know_nothing_of_each_other(folder: str, other: str) -> None:
    files = sorted((ROOT / folder).glob("*.py"))
    assert len(files) > 5
    assert any(imported_by(file) for file in files)
    wrong = [file.name for file in files if imported_by(file) & {other, "pipelines", "source"}]
    assert wrong == []


def test_what_both_use_knows_neither() -> None:
    shared = [file for file in ROOT.glob("*.py") if file.stem not in ABOVE]
    assert {"commits.py", "streams.py"} <= {file.name for file in shared}
    wrong = [file.name for file in shared if imported_by(file) & {"read", "write", "pipelines"}]
    assert wrong == []
