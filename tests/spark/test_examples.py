"""Every Spark program in examples/ runs and prints what its expected file says.

After a change of an example: AOF2_UPDATE_EXPECTED=1 pytest tests/spark/test_examples.py,
and read the difference.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support import HERE, ROOT, run_child

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = sorted((ROOT / "examples").glob("spark_*.py"))
EXPECTED = HERE / "expected"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_prints_what_is_expected(example: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    printed = run_child(example, cwd=tmp_path, TMPDIR=str(scratch))

    expected = EXPECTED / f"{example.stem}.txt"
    if os.environ.get("AOF2_UPDATE_EXPECTED"):
        expected.write_text(printed)
    assert printed == expected.read_text()
    left = [path.name for path in scratch.iterdir() if path.name.startswith("tmp")]
    assert left == [], "an example cleans up after itself"


def test_there_is_an_expected_file_for_each_and_no_other() -> None:
    assert {path.stem for path in EXPECTED.glob("*.txt")} == {path.stem for path in EXAMPLES}
