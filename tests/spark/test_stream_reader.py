"""What the streaming source answers to Spark, asked directly."""

from __future__ import annotations

import itertools
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import aof2
import pytest
from aof2.spark.errors import DataLoss
from aof2.spark.read.streaming import StreamReader
from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from pyspark.sql.types import LongType, StructField, StructType
from support import offsets_in, seconds, write_log

if TYPE_CHECKING:
    from pathlib import Path

OFFSET = StructType([StructField("offset", LongType())])


def reader(path: Path, **options: object) -> StreamReader:
    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    return StreamReader.for_query(given, OFFSET)


def everything(source: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return source.latestOffset(start, ReadAllAvailable())


def limited(source: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return source.latestOffset(start, source.getDefaultReadLimit())


def read(source: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    # As a task does: another instance, after a trip through pickle.
    other = pickle.loads(cloudpickle.dumps(source))
    return [o for part in source.partitions(start, end) for o in offsets_in(other.read(part))]


def test_from_the_beginning_to_the_durable_end(tmp_path: Path) -> None:
    source = reader(write_log(tmp_path / "events", 20), startingOffsets="earliest")

    start = source.initialOffset()
    end = everything(source, start)

    assert (start, end) == ({"events": 0}, {"events": 20})
    assert read(source, start, end) == list(range(20))
    # The same answer where there is nothing new: Spark compares the text.
    assert everything(source, end) == end
    assert source.partitions(end, end) == []
    assert source.reportLatestOffset() == {"events": 20}


def test_latest_is_looked_up_once_however_often_spark_asks_for_the_start(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 20)
    source = reader(log)

    start = source.initialOffset()
    first_end = everything(source, start)
    write_log(log, 5, first=20)

    # Asked again for the first micro-batch, and when it is replayed after a crash.
    assert source.initialOffset() == start
    assert reader(log).initialOffset() == start
    assert first_end == {"events": 20}
    assert read(source, start, first_end) == []
    assert read(source, first_end, everything(source, first_end)) == [20, 21, 22, 23, 24]


def test_starting_places(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 20)
    assert reader(log, startingOffsets=7).initialOffset() == {"events": 7}
    assert reader(log, startingTimestamp=seconds(9)).initialOffset() == {"events": 9}
    assert reader(log, startingOffsets='{"events": 3}').initialOffset() == {"events": 3}


def test_a_limit_by_records_is_shared_by_all_streams(tmp_path: Path) -> None:
    write_log(tmp_path / "busy", 90)
    write_log(tmp_path / "quiet", 10)
    source = reader(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger=50)
    assert source.getDefaultReadLimit() == ReadMaxRows(50)

    start = source.initialOffset()
    middle = limited(source, start)
    end = limited(source, middle)

    assert middle == {"busy": 45, "quiet": 5}
    assert end == limited(source, end) == {"busy": 90, "quiet": 10}
    # A trigger that takes everything has no limit.
    assert everything(source, start) == end


def test_a_limit_by_bytes(tmp_path: Path) -> None:
    log = tmp_path / "events"
    with aof2.Aof.open(log, segment_bytes=1 << 20) as writer:
        writer.append_many([b"x" * 1_000] * 5_000)
    source = reader(log, startingOffsets="earliest", maxBytesPerTrigger="512k")
    assert source.getDefaultReadLimit() == ReadMaxBytes(512 << 10)

    ends = [0]
    while (end := limited(source, {"events": ends[-1]})["events"]) != ends[-1]:
        ends.append(end)

    assert ends[-1] == 5_000
    counts = [right - left for left, right in itertools.pairwise(ends)]
    # About 1 KiB per record; sizes are estimated from the segments.
    assert all(400 <= count <= 600 for count in counts[:-1])
    # Less than one record still goes on.
    assert limited(reader(log, maxBytesPerTrigger=1), {"events": 7}) == {"events": 8}


def test_a_minimum_waits_until_there_is_enough_or_the_delay_is_over(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 20)
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 30}
    patient = reader(log, maxTriggerDelay="1d", **options)
    assert patient.getDefaultReadLimit() == ReadMinRows(30)
    start = patient.initialOffset()

    assert limited(patient, start) == start
    assert limited(reader(log, maxTriggerDelay="0ms", **options), start) == {"events": 20}
    write_log(log, 10, first=20)
    assert limited(patient, start) == {"events": 30}


def test_available_now_ends_with_what_was_there_at_first(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a", 20)
    source = reader(
        tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger=15, minOffsetsPerTrigger=1_000
    )
    source.prepareForTriggerAvailableNow()
    write_log(log, 20, first=20)
    write_log(tmp_path / "late", 5)

    start = {"a": 0}
    assert limited(source, start) == {"a": 15}
    assert limited(source, {"a": 15}) == {"a": 20}
    assert limited(source, {"a": 20}) == {"a": 20}


def test_a_stream_that_appears_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    write_log(tmp_path / "a", 5)
    source = reader(tmp_path)
    start = everything(source, source.initialOffset())

    write_log(tmp_path / "b", 3)
    end = everything(source, start)

    assert (start, end) == ({"a": 5}, {"a": 5, "b": 3})
    assert read(source, start, end) == [0, 1, 2]


def test_records_that_retention_removed_fail_the_query_unless_loss_is_accepted(
    tmp_path: Path,
) -> None:
    log = write_log(tmp_path / "events", 3_000)
    with aof2.Aof.open(log, segment_bytes=64 << 10) as writer:
        earliest = writer.apply_retention(before_offset=2_000).earliest_offset
    start, end = {"events": 10}, {"events": 3_000}

    with pytest.raises(DataLoss, match=rf"records 10 to {earliest - 1} .*failOnDataLoss"):
        reader(log).partitions(start, end)

    accepting = reader(log, failOnDataLoss=False)
    assert read(accepting, start, end) == list(range(earliest, 3_000))
    assert read(accepting, start, {"events": 20}) == []


def test_a_log_that_is_gone_or_another_one_fails_the_query(tmp_path: Path) -> None:
    write_log(tmp_path / "kept", 5)
    log = write_log(tmp_path / "events", 20)
    start = {"events": 20, "kept": 5}
    shutil.rmtree(log)

    with pytest.raises(DataLoss, match="'events' is gone"):
        everything(reader(tmp_path), start)
    assert everything(reader(tmp_path, failOnDataLoss=False), start) == start
    with pytest.raises(DataLoss, match="is gone"):
        reader(tmp_path).partitions({"events": 0}, {"events": 20})

    write_log(log, 3)
    with pytest.raises(DataLoss, match="ends at 3, but the query has read it up to 20"):
        everything(reader(tmp_path), start)
