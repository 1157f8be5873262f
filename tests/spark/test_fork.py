"""Workers are forked: whatever the parent has open stays the parent's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aof2
from support import HERE, run_child, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_workers_read_while_this_process_has_the_log_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    with aof2.Aof.open(tmp_path / "events") as writer, aof2.AofManager() as manager:
        other = manager.open(tmp_path / "other")
        writer.append_many([b"x"] * 100)
        other.append_many([b"y"] * 50)
        writer.flush()
        other.flush()
        with aof2.open(tmp_path / "events") as reader:
            assert spark.read.format("aof2").load(str(tmp_path)).count() == 150
            writer.append_many([b"x"] * 10)
            writer.flush()
            assert spark.read.format("aof2").load(str(tmp_path)).count() == 160
            assert reader.watermarks().durable == 110


def test_forked_children_read_for_themselves(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 300)

    printed = run_child(HERE / "programs" / "forked_readers.py", log, cwd=tmp_path)

    found = json.loads(printed)
    assert found["parent"] == 300
    assert sum(child["rows"] for child in found["children"]) == 300
    assert all(child["refused"] and child["anew"] for child in found["children"])
    with aof2.open(log) as reader:
        assert reader.watermarks().durable == 301
