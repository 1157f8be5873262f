"""Forks of logs are read by their path, and a log up to a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark.errors import InvalidOption
from aof2.spark.read.options import parse_options
from aof2.spark.read.ranges import batch_ranges
from aof2.spark.streams import find_streams
from support import payload, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 2_000
CUT = 1_300


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log events, its snapshot "then", and the fork trial with records of its own."""
    root = tmp_path_factory.mktemp("forks")
    write_log(root / "events", COUNT)
    aof2.Root(root).snapshot("events", "then", at=CUT)
    aof2.Root(root).fork("events", "trial", at="then")
    with aof2.Aof.open(root / "trial") as trial:
        trial.append_many([b"own %d" % n for n in range(10)])
    return root


def test_a_fork_is_read_by_its_path(spark: SparkSession, data: Path) -> None:
    frame = spark.read.format("aof2").option("minPartitions", 4).load(str(data / "trial"))
    rows = frame.orderBy("offset").collect()
    own = [b"own %d" % n for n in range(10)]
    assert [bytes(row.payload) for row in rows] == [payload(n) for n in range(CUT)] + own
    assert [row.offset for row in rows] == list(range(CUT + 10))


def test_a_log_is_read_up_to_a_snapshot(spark: SparkSession, data: Path) -> None:
    reading = spark.read.format("aof2").option("snapshot", "then")
    assert reading.load(str(data / "events")).count() == CUT
    late = reading.option("startingOffsets", CUT - 5).load(str(data / "events"))
    assert sorted(row.offset for row in late.collect()) == list(range(CUT - 5, CUT))


def test_a_snapshot_that_is_unknown_is_named(spark: SparkSession, data: Path) -> None:
    frame = spark.read.format("aof2").option("snapshot", "never")
    with pytest.raises(Exception, match="has no snapshot 'never'; there is then"):
        frame.load(str(data / "events")).count()


def test_a_directory_of_logs_has_its_forks_and_no_dropped_ones(tmp_path: Path) -> None:
    write_log(tmp_path / "events", 10)
    aof2.Root(tmp_path).fork("events", "trial", at=4)
    aof2.Root(tmp_path).drop("events")
    parsed = parse_options({"path": str(tmp_path)}, "batch")
    found = batch_ranges(find_streams(parsed.paths), parsed)
    assert {r.stream.key: (r.start, r.end) for r in found} == {"trial": (0, 4)}


def planned(path: object, **options: str) -> list[tuple[int, int]]:
    parsed = parse_options({"path": str(path), **options}, "batch")
    return [(r.start, r.end) for r in batch_ranges(find_streams(parsed.paths), parsed)]


def test_the_option_and_what_it_goes_with(data: Path) -> None:
    assert planned(data / "events", snapshot="then") == [(0, CUT)]
    with pytest.raises(InvalidOption, match="it has none"):
        planned(data / "trial", snapshot="then")
    for other in ("endingOffsets", "endingTimestamp"):
        with pytest.raises(InvalidOption, match="exclude each other"):
            planned(data / "events", snapshot="then", **{other: "5"})
    with pytest.raises(InvalidOption, match="a name"):
        planned(data / "events", snapshot=" ")
    with pytest.raises(InvalidOption, match=r"spark\.read only"):
        parse_options({"path": "x", "snapshot": "then"}, "stream")
