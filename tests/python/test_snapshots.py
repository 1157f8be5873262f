"""Snapshots of logs: places with a name that stay."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

import aof2
import pytest
from support import SMALL, wait_until

if TYPE_CHECKING:
    from pathlib import Path

WEEK = datetime.timedelta(days=7)


@pytest.fixture
def root(tmp_path: Path) -> aof2.Root:
    """The directory of the fixture `log`, which is called events."""
    return aof2.Root(tmp_path)


def test_a_snapshot_is_taken_listed_and_dropped(log: aof2.Aof, root: aof2.Root) -> None:
    log.append_many([b"a", b"b", b"c"])
    end = log.snapshot("end")
    assert (end.name, end.offset, end.expires_at_ms) == ("end", 3, None)
    root.snapshot("events", "begin", at=1)
    root.snapshot(log, "again", at="begin")
    assert {s.name: s.offset for s in root.snapshots("events")} == {
        "again": 1,
        "begin": 1,
        "end": 3,
    }
    assert root.snapshots(log) == root.snapshots("events")
    log.append(b"d")
    assert root.fork(log, "trial", at="end").offset == 3
    root.drop_snapshot("events", "end")
    root.drop_snapshot(log, "again")
    assert [s.name for s in root.snapshots(log)] == ["begin"]
    with pytest.raises(aof2.NoSuchSnapshot):
        root.drop_snapshot("events", "end")
    with aof2.open(root.path("trial")) as trial:
        assert trial.watermarks().durable == 3


def test_a_name_is_taken_once(log: aof2.Aof, root: aof2.Root) -> None:
    log.snapshot("now")
    with pytest.raises(aof2.NameTaken) as taken:
        root.snapshot("events", "now")
    assert taken.value.name == "now"
    root.drop_snapshot(log, "now")
    log.snapshot("now")


def test_retention_leaves_it_alone(tmp_path: Path) -> None:
    root = aof2.Root(tmp_path)
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:
        log.append_many([bytes(1_000)] * 400)
        log.snapshot("early", at=10)
        assert log.apply_retention(before_offset=390).segments == []
        root.drop_snapshot(log, "early")
        assert log.apply_retention(before_offset=390).segments != []


def test_it_expires(log: aof2.Aof, root: aof2.Root) -> None:
    log.append(b"a")
    kept = log.snapshot("kept", expires=WEEK)
    assert kept.expires_at_ms is not None
    assert abs(kept.expires_at_ms - kept.created_at_ms - 7 * 86_400_000) < 60_000
    moment = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
    exact = root.snapshot("events", "exact", expires=moment)
    assert exact.expires_at_ms == int(moment.timestamp() * 1000)
    log.snapshot("short", expires=datetime.timedelta(milliseconds=1))
    wait_until(lambda: [s.name for s in root.snapshots(log)] == ["exact", "kept"], "the expiry")
    with pytest.raises(aof2.NoSuchSnapshot):
        root.fork(log, "trial", at="short")
    assert root.sweep().holds == 1
    log.snapshot("short")


def test_times_that_are_over_and_types_that_are_wrong(log: aof2.Aof, root: aof2.Root) -> None:
    past = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    for over in (past, -WEEK, datetime.timedelta(0)):
        with pytest.raises(ValueError, match="expires must be later than now"):
            log.snapshot("x", expires=over)
    for wrong in (7, "7d", 1.5):
        with pytest.raises(TypeError, match="expires must be a timedelta, a datetime or None"):
            root.snapshot(log, "x", expires=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name must be str"):
        log.snapshot(3)  # type: ignore[arg-type]
    with pytest.raises(aof2.InvalidConfig):
        log.snapshot("")
    assert root.snapshots(log) == []


def test_a_reader_takes_one_of_what_is_durable(log: aof2.Aof, root: aof2.Root) -> None:
    log.append(b"a")
    log.flush()
    with aof2.open(log.path) as reader:
        assert reader.snapshot("by reader").offset == 1
        assert root.snapshots(reader)[0].name == "by reader"


def test_snapshots_go_with_their_log(log: aof2.Aof, root: aof2.Root) -> None:
    log.append(b"a")
    log.snapshot("mine")
    log.close()
    with pytest.raises(aof2.Held) as held:
        root.purge("events")
    assert held.value.holders == ['snapshot "mine"']
    assert root.drop("events") == []
    assert len(root.tree()) == 0
