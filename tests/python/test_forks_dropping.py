"""Logs that go while others read them, forks that stand alone, and what is swept."""

from __future__ import annotations

from pathlib import Path

import aof2
import pytest
from support import SMALL


def payloads(path: str | Path) -> list[bytes]:
    with aof2.open(path) as log:
        return [bytes(record) for record in log.scan()]


@pytest.fixture
def root(tmp_path: Path) -> aof2.Root:
    """A directory with the log events, and trial, which was forked from it at 2."""
    root = aof2.Root(tmp_path)
    with aof2.Aof.open(tmp_path / "events") as log:
        log.append_many([b"a", b"b", b"c"])
        fork = root.fork(log, "trial", at=2)
    with aof2.Aof.open(fork.path) as trial:
        trial.append(b"other")
    return root


def names(root: aof2.Root) -> list[tuple[str, bool]]:
    return [(node.name, node.is_dropped) for node in root.tree()]


def test_a_dropped_log_is_there_for_its_fork(root: aof2.Root) -> None:
    with aof2.open(root.path("trial")) as before:
        assert root.drop("events") == ['fork "trial"']
        assert not Path(root.path("events")).exists()
        assert [bytes(r) for r in before.scan()] == [b"a", b"b", b"other"]
    assert payloads(root.path("trial")) == [b"a", b"b", b"other"]
    assert names(root) == [("events", True), ("trial", False)]
    # The name is free.
    with aof2.Aof.open(root.path("events")) as log:
        log.append(b"new")
    assert payloads(root.path("trial")) == [b"a", b"b", b"other"]
    assert root.drop("trial") == []
    assert names(root) == [("events", False)]
    assert list(Path(root.dir, ".origins").iterdir()) == []
    assert root.sweep() == aof2.Swept(0, 0, 0)


def test_purge_names_who_reads_the_log(root: aof2.Root) -> None:
    with pytest.raises(aof2.Held) as held:
        root.purge("events")
    assert held.value.holders == ['fork "trial"']
    assert held.value.path == root.path("events")
    assert isinstance(held.value, RuntimeError)
    root.purge("trial")
    root.purge("events")
    assert names(root) == []


def test_a_detached_fork_needs_nobody(root: aof2.Root) -> None:
    with aof2.open(root.path("trial")) as log:
        ids = [record.id for record in log.scan()]
    assert root.detach("trial") == 2
    root.purge("events")
    with aof2.open(root.path("trial")) as log:
        records = list(log.scan())
        assert {segment.stream_id for segment in log.segments()} == {log.stream_id}
    assert [bytes(record) for record in records] == [b"a", b"b", b"other"]
    assert [record.id for record in records] == ids
    assert aof2.verify(root.path("trial")).is_healthy
    assert root.detach("trial") == 0
    assert [node.parent for node in root.tree()] == [None]


def test_logs_that_are_written_stay(root: aof2.Root) -> None:
    with aof2.Aof.open(root.path("trial")):
        for call in (root.drop, root.purge, root.detach):
            with pytest.raises(aof2.Locked):
                call("trial")
    assert names(root) == [("events", False), ("trial", False)]


def test_logs_that_are_not_there(root: aof2.Root) -> None:
    for call in (root.drop, root.purge, root.detach, root.snapshots):
        with pytest.raises(aof2.NotALog):
            call("nothing")


def test_retention_stops_where_a_fork_reads(tmp_path: Path) -> None:
    root = aof2.Root(tmp_path)
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:
        log.append_many([bytes(1_000)] * 400)
        root.fork(log, "trial", at=200)
        report = log.apply_retention(before_offset=390)
        assert report.segments == []
        assert report.kept is not None
        assert report.kept.reason == "shared"
        root.drop("trial")
        assert log.apply_retention(before_offset=390).segments != []


def test_a_fork_without_its_parent_says_which_is_missing(root: aof2.Root, tmp_path: Path) -> None:
    Path(root.path("events")).rename(tmp_path.parent / "elsewhere")
    with aof2.open(root.path("trial")) as log:
        with pytest.raises(aof2.Error, match='"events"'):
            log.read_offset(0)
        assert bytes(log.read_offset(2)) == b"other"
    (tmp_path.parent / "elsewhere").rename(tmp_path / "renamed")
    assert payloads(root.path("trial")) == [b"a", b"b", b"other"]


def test_a_fork_has_no_cold_tier_until_it_is_detached(root: aof2.Root) -> None:
    with pytest.raises(aof2.InvalidConfig, match="detach it"):
        aof2.Aof.open(root.path("trial"), tiers=aof2.Tiers(cold="s3://bucket/logs"))
