"""Forks of logs: what one reads, who may go on, what is refused."""

from __future__ import annotations

import datetime
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aof2
import pytest
from support import DEADLINE_S, QUIET, SMALL, run_program, start_program


def payloads(log: aof2.ReadableLog) -> list[bytes]:
    return [bytes(record) for record in log.scan()]


def at_path(path: str | Path) -> list[bytes]:
    with aof2.open(path) as log:
        return payloads(log)


@pytest.fixture
def root(tmp_path: Path) -> aof2.Root:
    """The directory of the fixture `log`, which is called events."""
    return aof2.Root(tmp_path)


def test_a_fork_begins_with_its_parent_and_goes_its_own_way(log: aof2.Aof, root: aof2.Root) -> None:
    ids = log.append_many([b"a", b"b", b"c"])
    made = root.fork(log, "trial", at=2)
    assert (made.name, made.offset, made.path) == ("trial", 2, root.path("trial"))
    with aof2.Aof.open(made.path) as trial:
        assert trial.stream_id == made.stream_id != log.stream_id
        trial.append(b"other")
        trial.flush()
        assert payloads(trial) == [b"a", b"b", b"other"]
        assert bytes(trial.read(ids[1])) == b"b"
        assert {s.stream_id for s in trial.segments()} == {log.stream_id, trial.stream_id}
    log.append(b"d")
    log.flush()
    assert payloads(log) == [b"a", b"b", b"c", b"d"]
    assert at_path(made.path) == [b"a", b"b", b"other"]
    assert aof2.verify(made.path).is_healthy


def test_every_kind_of_place(log: aof2.Aof, root: aof2.Root) -> None:
    ids = [log.append(b"%d" % n, timestamp_ms=1_000 * (n + 1)) for n in range(5)]
    log.snapshot("three", at=3)
    moment = datetime.datetime.fromtimestamp(2.5, datetime.UTC)
    places = {"end": None, "offset": 1, "id": ids[4], "time": moment, "named": "three", "start": 0}
    cuts = {name: root.fork("events", name, at).offset for name, at in places.items()}
    assert cuts == {"end": 5, "offset": 1, "id": 4, "time": 2, "named": 3, "start": 0}
    for name, offset in cuts.items():
        assert at_path(root.path(name)) == [b"%d" % n for n in range(offset)]


def test_a_handle_is_flushed_and_a_name_is_not(tmp_path: Path) -> None:
    root = aof2.Root(tmp_path)
    with aof2.Aof.open(tmp_path / "quiet", **QUIET) as quiet:
        quiet.append(b"not durable yet")
        assert root.fork("quiet", "by-name").offset == 0
        with pytest.raises(aof2.PastEnd) as past:
            root.fork("quiet", "too-far", at=1)
        assert past.value.is_appended
        assert root.fork(quiet, "by-handle").offset == 1
        assert quiet.watermarks().durable == 1


def test_an_open_log_forks_beside_itself_or_at_a_path(log: aof2.Aof, tmp_path: Path) -> None:
    log.append(b"a")
    assert Path(log.fork("beside").path) == tmp_path / "beside"
    assert Path(log.fork(tmp_path / "path").path) == tmp_path / "path"
    assert Path(log.fork(str(tmp_path / "deep" / "text")).path) == tmp_path / "deep" / "text"
    with aof2.open(log.path) as reader:
        assert reader.fork("by-reader", at=0).offset == 0
    with pytest.raises(aof2.InvalidConfig, match="is not in the directory"):
        log.fork(tmp_path.parent / "outside")
    made = log.fork(tmp_path.parent / "with-root", root=tmp_path.parent)
    assert at_path(made.path) == [b"a"]


def test_a_handle_of_another_directory_is_refused(log: aof2.Aof, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(aof2.InvalidConfig, match="is not in the directory"):
        aof2.Root(tmp_path / "other").snapshots(log)


def test_the_tree_shows_who_came_from_whom(log: aof2.Aof, root: aof2.Root) -> None:
    log.append_many([b"a", b"b", b"c"])
    log.snapshot("two", at=2)
    child = root.fork(log, "child", at=2)
    root.fork("child", "grandchild", at=1)
    tree = root.tree()
    told = [(n.name, n.parent_name, n.fork_offset, n.depth, n.is_dropped) for n in tree]
    assert told == [
        ("events", None, None, 0, False),
        ("child", "events", 2, 1, False),
        ("grandchild", "events", 1, 1, False),
    ]
    events = tree.logs[0]
    assert [taken.name for taken in events.snapshots] == ["two"]
    assert sorted(events.holders) == ['fork "child"', 'fork "grandchild"']
    assert [node.name for node in tree.roots()] == ["events"]
    assert len(tree.forks_of(log.stream_id)) == 2
    assert tree.logs[1].stream_id == child.stream_id
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_a_name_that_is_taken(log: aof2.Aof, root: aof2.Root) -> None:
    root.fork(log, "trial")
    for name in ("trial", "events"):
        with pytest.raises(aof2.NameTaken) as taken:
            root.fork(log, name)
        assert taken.value.name == name


@pytest.mark.parametrize("name", ["../x", ".x", "", "/tmp/x", "a/../.."])
def test_names_that_are_none(log: aof2.Aof, root: aof2.Root, name: str) -> None:
    with pytest.raises(aof2.InvalidConfig):
        root.fork(log, name)
    with pytest.raises(aof2.InvalidConfig):
        root.path(name)


def test_wrong_places(log: aof2.Aof, root: aof2.Root) -> None:
    log.append(b"a")
    log.flush()
    with pytest.raises(aof2.PastEnd):
        root.fork("events", "x", at=2)
    with pytest.raises(aof2.RecordNotFound):
        root.fork("events", "x", at=aof2.RecordId(7, 64))
    with pytest.raises(aof2.NoSuchSnapshot) as missing:
        root.fork("events", "x", at="nothing")
    assert missing.value.name == "nothing"
    assert isinstance(missing.value, LookupError)
    with pytest.raises(aof2.NotALog):
        root.fork("nothing", "x")
    assert [node.name for node in root.tree()] == ["events"]


def test_wrong_types(log: aof2.Aof, root: aof2.Root) -> None:
    wrong: list[object] = [1.5, True, b"x", datetime.timedelta(1), object()]
    for at in wrong:
        with pytest.raises(TypeError, match="at must be an int, RecordId, datetime"):
            root.fork("events", "x", at)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aware"):
        root.fork("events", "x", datetime.datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="at must be"):
        root.fork("events", "x", -1)
    with pytest.raises(TypeError, match="from_ must be the name of a log or an open log"):
        root.fork(3, "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to must be str"):
        root.fork("events", 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="to must be a name or a path"):
        log.fork(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path must be"):
        aof2.Root(3)  # type: ignore[arg-type]
    for call in (root.drop, root.purge, root.detach):
        with pytest.raises(TypeError, match="log must be str"):
            call(log)  # type: ignore[arg-type]


def test_closed_handles(log: aof2.Aof, root: aof2.Root) -> None:
    reader = aof2.open(log.path)
    reader.close()
    log.close()
    for handle in (log, reader):
        with pytest.raises(aof2.Closed):
            root.fork(handle, "x")
        with pytest.raises(aof2.Closed):
            root.snapshot(handle, "x")
        with pytest.raises(aof2.Closed):
            handle.fork("x")
        with pytest.raises(aof2.Closed):
            handle.snapshot("x")


def test_roots_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(aof2.NotALog, match="does not exist"):
        aof2.Root(tmp_path / "nothing")
    with pytest.raises(aof2.InvalidConfig):
        aof2.Root("s3://bucket/logs")
    assert len(aof2.Root(tmp_path).tree()) == 0


def test_a_root_pickles_and_names_itself(root: aof2.Root, tmp_path: Path) -> None:
    assert pickle.loads(pickle.dumps(root)).dir == root.dir == str(tmp_path)
    assert repr(root) == f'<aof2.Root "{tmp_path}">'


def test_a_fork_is_made_while_another_process_writes_the_parent(tmp_path: Path) -> None:
    writer = start_program(
        """
        import sys, aof2
        with aof2.Aof.open(sys.argv[1], segment_bytes=65536) as log:
            for n in range(20_000):
                log.append(b"%d" % n)
                if n == 2_000:
                    log.flush()
                    print("go", flush=True)
            sys.stdin.readline()
            log.append(b"last")
            log.flush()
        """,
        tmp_path / "events",
    )
    with writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "go\n"
        root = aof2.Root(tmp_path)
        made = [root.fork("events", f"fork{n}") for n in range(5)]
        for fork in made:
            assert fork.offset > 2_000
            assert at_path(fork.path) == [b"%d" % n for n in range(fork.offset)]
            with aof2.Aof.open(fork.path) as log:
                log.append(b"own")
        with pytest.raises(aof2.Locked) as locked:
            root.drop("events")
        assert locked.value.pid == writer.pid
        with pytest.raises(aof2.Locked):
            root.purge("events")
        writer.communicate("\n", timeout=120)
    assert writer.returncode == 0
    assert at_path(tmp_path / "events") == [b"%d" % n for n in range(20_000)] + [b"last"]
    for fork in made:
        assert at_path(fork.path)[-1] == b"own"


def test_another_process_reads_and_writes_a_fork(log: aof2.Aof, tmp_path: Path) -> None:
    log.append_many([b"a", b"b"])
    made = log.fork("trial", at=1)
    told = run_program(
        """
        import sys, aof2
        with aof2.Aof.open(sys.argv[1]) as log:
            log.append(b"other")
            log.flush()
            print(*[bytes(record).decode() for record in log.scan()])
        """,
        made.path,
    )
    assert told == ["a other"]
    assert at_path(made.path) == [b"a", b"other"]
    assert at_path(tmp_path / "events") == [b"a", b"b"]


def test_threads_fork_one_log_while_it_is_written(log: aof2.Aof, root: aof2.Root) -> None:
    def work(number: int) -> list[tuple[str, int]]:
        made = []
        for n in range(10):
            log.append(b"%d %d" % (number, n))
            fork = root.fork(log, f"fork-{number}-{n}")
            made.append((fork.path, fork.offset))
        return made

    with ThreadPoolExecutor(4) as pool:
        made = [fork for part in pool.map(work, range(4)) for fork in part]
    everything = payloads(log)
    assert len(everything) == 40
    for path, offset in made:
        assert at_path(path) == everything[:offset]
    assert len(root.tree()) == 41


def test_one_thread_gets_the_name(log: aof2.Aof, root: aof2.Root) -> None:
    log.append(b"a")
    start = threading.Barrier(4)

    def work(_number: int) -> bool:
        start.wait(timeout=DEADLINE_S)
        try:
            root.fork(log, "same")
        except aof2.NameTaken:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(work, range(4))) == [False, False, False, True]
    assert at_path(root.path("same")) == [b"a"]
    root.sweep()
    assert root.tree().logs[0].holders == ['fork "same"']
    assert sorted(path.name for path in Path(root.dir).iterdir()) == ["events", "same"]


def test_a_child_of_the_process_has_its_own_roots_but_not_its_handles(tmp_path: Path) -> None:
    told = run_program(
        """
        import os, sys, aof2
        root = aof2.Root(sys.argv[1])
        log = aof2.Aof.open(root.path("events"))
        log.append(b"a")
        log.flush()
        if os.fork() == 0:
            try:
                root.fork(log, "x")
            except aof2.ForkedHandle:
                print("refused", flush=True)
            print(root.fork("events", "by-child").offset, flush=True)
            os._exit(0)
        os.wait()
        """,
        tmp_path,
    )
    assert told == ["refused", "1"]


def test_forks_of_forks_up_to_the_limit(tmp_path: Path) -> None:
    root = aof2.Root(tmp_path)
    with aof2.Aof.open(tmp_path / "g0") as log:
        log.append(b"0")
    for n in range(1, 65):
        root.fork(f"g{n - 1}", f"g{n}")
        with aof2.Aof.open(root.path(f"g{n}")) as log:
            log.append(b"%d" % n)
    assert at_path(root.path("g64")) == [b"%d" % n for n in range(65)]
    with pytest.raises(aof2.InvalidConfig, match="64 ancestors"):
        root.fork("g64", "g65")
    assert root.detach("g64") == 64
    assert root.fork("g64", "g65").offset == 65


def test_segments_of_another_log_are_not_moved(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:
        log.append_many([bytes(1_000)] * 200)
        made = log.fork("trial", at=150)
    with (
        aof2.Aof.open(made.path, tiers=aof2.Tiers()) as trial,
        pytest.raises(aof2.Shared) as shared,
    ):
        trial.evict(0)
    assert (shared.value.segment_id, shared.value.origin) == (0, "events")
    assert isinstance(shared.value, RuntimeError)
