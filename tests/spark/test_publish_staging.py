"""Staging: every attempt by itself, and what nobody publishes is collected by its age."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import aof2
import pyarrow as pa
import pytest
from aof2.spark.write.incoming import InvalidRows, Place, StreamRows
from aof2.spark.write.options import WriteOptions
from aof2.spark.write.publish import Publisher
from aof2.spark.write.staging import Attempt
from sink_support import (
    SteppedFiles,
    assert_once,
    batch,
    published_logs,
    stage,
    staged_names,
    visible_rows,
)

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86_400.0


def set_age(path: Path, age_s: float) -> None:
    then = time.time() - age_s
    for entry in (path, *path.rglob("*")):
        os.utime(entry, (then, then), follow_symlinks=False)


def test_staging_is_collected_when_nothing_in_it_changed_for_long_enough(tmp_path: Path) -> None:
    target = tmp_path / "t"
    (dead,) = stage(target, [b"dead"])
    (young,) = stage(target, [b"young"])
    (busy,) = stage(target, [b"busy"])
    set_age(dead.path.parent, 8 * DAY_S)
    set_age(young.path.parent, 6 * DAY_S)
    set_age(busy.path.parent, 8 * DAY_S)
    # A task that writes for days: its newest segment tells.
    next((busy.path / "segments").iterdir()).touch()
    Publisher(target).publish([])
    assert staged_names(target) == sorted([young.path.parent.name, busy.path.parent.name])
    later = Publisher(target, clock=lambda: time.time() + 8 * DAY_S)
    later.collect()
    assert staged_names(target) == []


def test_the_age_is_an_option(tmp_path: Path) -> None:
    target = tmp_path / "t"
    (log,) = stage(target, [b"x"])
    Publisher(target).publish([])
    set_age(log.path.parent, 120)
    Publisher(target, staging_max_age_s=3600).collect()
    assert log.path.exists()
    Publisher(target, staging_max_age_s=60).collect()
    assert not log.path.exists()


def test_published_logs_are_never_too_old(tmp_path: Path) -> None:
    target = tmp_path / "t"
    Publisher(target).publish(stage(target, [b"x"]))
    set_age(target, 1000 * DAY_S)
    Publisher(target, staging_max_age_s=0).collect()
    Publisher(target, staging_max_age_s=0).publish([])
    assert_once(target, [b"x"])


def test_collecting_in_a_target_that_nobody_wrote_to_changes_nothing(tmp_path: Path) -> None:
    Publisher(tmp_path / "t").collect()
    assert list(tmp_path.iterdir()) == []


def test_twins_of_a_task_stage_apart_and_one_is_published(tmp_path: Path) -> None:
    target = tmp_path / "t"
    options = WriteOptions(target, segment_bytes=64 << 10)
    with Attempt(options, 3, 0) as first, Attempt(options, 3, 0) as second:
        for number in range(5):
            for twin in (first, second):
                twin.append(Place(3, number), StreamRows(None, batch([b"row %d" % number])))
        staged, not_used = first.finish(), second.finish()
    Publisher(target).publish(staged)
    assert_once(target, [b"row %d" % number for number in range(5)])
    assert staged_names(target) == [not_used[0].path.parent.name]


def test_a_task_that_fails_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "t"

    def fail_half_way() -> None:
        with Attempt(WriteOptions(target), 0, 0) as attempt:
            attempt.append(Place(0, 0), StreamRows(None, batch([b"x"])))
            assert len(staged_names(target)) == 1
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert staged_names(target) == []


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    with Attempt(WriteOptions(tmp_path / "t"), 0, 0) as attempt:
        assert attempt.finish() == ()
    assert not (tmp_path / "t").exists()


def test_a_finished_attempt_is_durable_and_closed(tmp_path: Path) -> None:
    (log,) = stage(tmp_path / "t", [b"1", b"2"])
    with aof2.open(log.path) as reader:
        assert reader.closed_cleanly
        assert reader.watermarks().durable == 2
        assert [segment.is_sealed for segment in reader.segments()] == [True]
    assert (log.rows, log.payload_bytes) == (2, 2)


def test_many_streams_share_few_open_logs(tmp_path: Path) -> None:
    target = tmp_path / "t"
    options = WriteOptions(target, segment_bytes=64 << 10, open_streams_max=2)
    with Attempt(options, 0, 0) as attempt:
        for number in range(3):
            for stream in "abcde":
                rows = batch([b"%s%d" % (stream.encode(), number)])
                attempt.append(Place(0, number), StreamRows(stream, rows))
        staged = attempt.finish()
    Publisher(target).publish(staged)
    for path in published_logs(target):
        with aof2.open(path) as log:
            expected = [b"%s%d" % (log.name.encode(), number) for number in range(3)]
            assert [bytes(record) for record in log.scan()] == expected
    assert len(published_logs(target)) == 5


@pytest.mark.parametrize(
    "stream", ["../../outside", "..", ".", "_hidden", "a/b", "ünï cödé", "x" * 200, "%2F"]
)
def test_any_stream_name_stays_in_its_directory_and_is_read_back(
    tmp_path: Path, stream: str
) -> None:
    target = tmp_path / "t"
    Publisher(target).publish(stage(target, [b"x"], stream=stream))
    (path,) = published_logs(target)
    assert path.name.startswith("part-00000-")
    assert staged_names(target) == []
    with aof2.open(path) as log:
        assert log.name == stream
    assert visible_rows(target) == [b"x"]
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize("stream", ["", "x" * 300, "line\nbreak"])
def test_names_that_no_log_can_have_are_refused(tmp_path: Path, stream: str) -> None:
    with pytest.raises(InvalidRows, match="stream"):
        stage(tmp_path / "t", [b"x"], stream=stream)
    assert staged_names(tmp_path / "t") == []


def test_timestamps_past_the_year_9999_are_refused(tmp_path: Path) -> None:
    times = pa.array([0, 253_402_300_800_000_000], pa.timestamp("us", tz="UTC"))
    rows = StreamRows(None, batch([b"a", b"b"], timestamp=times))
    with (
        pytest.raises(InvalidRows, match=r"batch 2: .*row 1: column .timestamp.*9999"),
        Attempt(WriteOptions(tmp_path / "t"), 0, 0) as attempt,
    ):
        attempt.append(Place(0, 2), rows)
    assert staged_names(tmp_path / "t") == []


def test_leftovers_that_cannot_be_removed_do_not_fail_a_commit(tmp_path: Path) -> None:
    target = tmp_path / "t"

    def before(step: int, what: str) -> None:
        if what.startswith("remove tree"):
            raise PermissionError(what)

    Publisher(target, files=SteppedFiles(before)).publish(stage(target, [b"x"]))
    assert_once(target, [b"x"])
