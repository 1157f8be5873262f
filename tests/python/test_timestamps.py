"""Timestamps end with the year 9999: later ones are refused, and those of old logs harmless."""

from __future__ import annotations

import datetime
import tarfile
import time
from pathlib import Path

import aof2
import pytest

LAST_MS = 253_402_300_799_999
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=datetime.UTC)
FAR_MS = 1_700_000_000_123_456_789
FAR_MS_COMPACT = 2**64 // 1_000_000  # what that layout made of it
OLD_LOGS = Path(__file__).parent / "data" / "far-future-timestamps.tar.gz"


@pytest.fixture(params=["full", "compact"])
def old_log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A log of version 0.1, which took any number: four segments of a record each.

    The second is stamped in nanoseconds, 50 million years from now.
    """
    with tarfile.open(OLD_LOGS) as archive:
        archive.extractall(tmp_path, filter="data")
    path: Path = tmp_path / request.param
    return path


@pytest.mark.parametrize("timestamp_ms", [LAST_MS + 1, time.time_ns(), 2**64 - 1])
def test_what_no_datetime_can_hold_is_refused(quiet: aof2.Aof, timestamp_ms: int) -> None:
    quiet.append(b"x", timestamp_ms=LAST_MS)
    for append in (quiet.append, quiet.try_append):
        with pytest.raises(ValueError, match=f"past {LAST_MS}") as refused:
            append(b"x", timestamp_ms=timestamp_ms)
        assert type(refused.value) is aof2.InvalidRecord
        assert "9999-12-31T23:59:59.999Z" in str(refused.value)
    assert "did you pass nanoseconds" in str(refused.value) or timestamp_ms == LAST_MS + 1
    assert quiet.watermarks().appended == 1
    assert quiet.read_offset(0).timestamp == LAST


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_column_of_timestamps_is_checked_before_anything_is_written(
    quiet: aof2.Aof, unit: str
) -> None:
    arrow = pytest.importorskip("pyarrow")
    # Nanoseconds end in 2262.
    late = {"s": 2**62, "ms": LAST_MS + 1, "us": (LAST_MS + 1) * 1000}.get(unit)
    kind = arrow.timestamp(unit, tz="UTC") if unit != "ns" else arrow.int64()
    times = arrow.array([5, late or time.time_ns()], kind)
    table = arrow.table({"payload": [b"a", b"b"], "at": times})
    with pytest.raises(aof2.InvalidRecord, match='row 1: column "at": the timestamp'):
        quiet.append_arrow(table, column="payload", timestamp_column="at")
    assert quiet.watermarks().appended == 0


def test_old_records_past_the_bound_are_no_damage(old_log: Path) -> None:
    assert aof2.verify(old_log).is_healthy
    with aof2.open(old_log) as reader:
        far = list(reader.scan())[1]
        assert far.timestamp_ms in (FAR_MS, FAR_MS_COMPACT)
        assert bytes(far) == b"in nanoseconds"
        if far.timestamp_ms == FAR_MS:
            assert far.timestamp == LAST
        else:
            assert far.timestamp.year == 2554


def test_every_reader_shows_the_same_moment(old_log: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    with aof2.open(old_log) as reader:
        table = arrow.table(reader.scan_arrow(columns=["timestamp"]))
        assert table["timestamp"].to_pylist() == [record.timestamp for record in reader.scan()]


def test_retention_by_age_says_what_it_keeps_and_why(old_log: Path) -> None:
    with aof2.Aof.open(old_log) as log:
        report = log.apply_retention(max_age_ms=1000)
        assert [segment.segment_id for segment in report.segments] == [0]
        kept = report.kept
        assert kept is not None
        assert (kept.segment_id, kept.reason) == (1, "future_timestamp")
        assert kept.last_timestamp_ms in (FAR_MS, FAR_MS_COMPACT)
        assert log.metrics()["retention_in_future"] is True
        # By offset it goes, and age works again.
        gone = log.apply_retention(before_offset=2, max_age_ms=1000)
        assert [segment.segment_id for segment in gone.segments] == [1, 2]
        assert gone.kept is not None
        assert (gone.kept.segment_id, gone.kept.reason) == (3, "newest")
        assert log.metrics()["retention_in_future"] is False


def test_new_records_are_not_stamped_after_the_old_ones(old_log: Path) -> None:
    with aof2.Aof.open(old_log) as log:
        before = time.time_ns() // 1_000_000
        now = log.read(log.append(b"now")).timestamp_ms
        assert before - 60_000 <= now <= before + 600_000
