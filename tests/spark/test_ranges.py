"""Ranges by offset and by time, on real logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark.errors import DataLoss, InvalidOption
from aof2.spark.read.options import parse_options
from aof2.spark.read.ranges import batch_ranges
from aof2.spark.streams import find_streams
from support import seconds, write_log

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranges")
    write_log(root / "a", 1_500)
    write_log(root / "b", 50, name="bees")
    write_log(root / "trimmed", 3_000)
    with aof2.Aof.open(root / "trimmed", segment_bytes=64 << 10) as log:
        earliest = log.apply_retention(before_offset=1_500).earliest_offset
    assert 0 < earliest <= 1_500
    return root


def ranges(path: Path, **options: object) -> dict[str, tuple[int, int]]:
    given = {"path": str(path), **{name: str(value) for name, value in options.items()}}
    parsed = parse_options(given, "batch")
    found = batch_ranges(find_streams(parsed.paths), parsed)
    return {r.stream.key: (r.start, r.end) for r in found}


def test_offsets(data: Path) -> None:
    log = data / "a"
    assert ranges(log) == {"a": (0, 1_500)}
    assert ranges(log, startingOffsets=10, endingOffsets=20) == {"a": (10, 20)}
    assert ranges(log, startingOffsets="earliest", endingOffsets="latest") == {"a": (0, 1_500)}
    # An end that is not written yet is the end of the log; a start there reads nothing.
    assert ranges(log, endingOffsets=9_999) == {"a": (0, 1_500)}
    assert ranges(log, startingOffsets=9_999) == {"a": (9_999, 9_999)}
    assert ranges(log, startingOffsets=20, endingOffsets=10) == {"a": (20, 20)}


def test_moments(data: Path) -> None:
    log = data / "a"
    assert ranges(log, startingTimestamp=seconds(100), endingTimestamp=seconds(200)) == {
        "a": (100, 200)
    }
    # Between two records: the next one is the first at or after the moment.
    late = str(int(seconds(100)) + 1)
    assert ranges(log, startingTimestamp=late, endingTimestamp=late) == {"a": (101, 101)}
    assert ranges(log, startingTimestamp="2099-01-01") == {"a": (1_500, 1_500)}
    assert ranges(log, startingTimestamp="1971-01-01", endingOffsets=7) == {"a": (0, 7)}


def test_each_stream_by_its_key_or_its_name(data: Path) -> None:
    both = data / "[ab]"
    assert ranges(both, startingOffsets='{"a": 5, "bees": {"0": 7}}') == {
        "a": (5, 1_500),
        "b": (7, 50),
    }
    assert ranges(both, endingOffsets='{"b": 3}') == {"a": (0, 1_500), "b": (0, 3)}
    assert ranges(both, startingOffsets='{"a": -1}') == {"a": (1_500, 1_500), "b": (0, 50)}
    with pytest.raises(InvalidOption, match="no stream 'c'; there is a or b"):
        ranges(both, startingOffsets='{"c": 1}')


def test_a_range_that_retention_removed_fails_unless_loss_is_accepted(data: Path) -> None:
    log = data / "trimmed"
    with aof2.open(log) as reader:
        earliest = reader.earliest_offset()

    assert ranges(log) == {"trimmed": (earliest, 3_000)}
    with pytest.raises(DataLoss, match=rf"records 5 to {earliest - 1} .*begins at {earliest}"):
        ranges(log, startingOffsets=5)
    with pytest.raises(DataLoss, match=r"records 5 to 9 "):
        ranges(log, startingOffsets=5, endingOffsets=10)
    accepted = ranges(log, startingOffsets=5, failOnDataLoss=False)
    assert accepted == {"trimmed": (earliest, 3_000)}
    assert ranges(log, startingOffsets=5, endingOffsets=10, failOnDataLoss=False) == {
        "trimmed": (10, 10)
    }


def test_only_durable_records_unless_asked_for_more(tmp_path: Path) -> None:
    path = tmp_path / "live"
    # Nothing is flushed by itself while the test looks.
    with aof2.Aof.open(path, flush_interval_ms=600_000, flush_bytes=1 << 30) as log:
        log.append_many([b"durable"] * 5)
        log.flush()
        log.append_many([b"not yet"] * 3)
        assert ranges(path) == {"live": (0, 5)}
        assert ranges(path, visibility="appended") == {"live": (0, 8)}
