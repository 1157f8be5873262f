"""Errors: which one, what it carries, which builtin it is, and that it pickles."""

from __future__ import annotations

import copy
import errno
import functools
import os
import pickle
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import aof2
import pytest
from support import QUIET, run_program

if TYPE_CHECKING:
    from collections.abc import Callable

E = TypeVar("E", bound=aof2.Error)

BUILTINS: dict[type[aof2.Error], type[BaseException]] = {
    aof2.Closed: ValueError,
    aof2.ColdError: OSError,
    aof2.Corrupt: OSError,
    aof2.Diverged: OSError,
    aof2.FeedReset: LookupError,
    aof2.Fenced: OSError,
    aof2.ForeignFile: OSError,
    aof2.ForkedHandle: RuntimeError,
    aof2.Held: RuntimeError,
    aof2.InvalidConfig: ValueError,
    aof2.InvalidRecord: ValueError,
    aof2.IoError: OSError,
    aof2.JobPending: RuntimeError,
    aof2.LastCopy: RuntimeError,
    aof2.Locked: BlockingIOError,
    aof2.NameTaken: FileExistsError,
    aof2.NewerVersion: OSError,
    aof2.NoSuchDatabase: LookupError,
    aof2.NoSuchSnapshot: LookupError,
    aof2.NotALog: FileNotFoundError,
    aof2.PastEnd: IndexError,
    aof2.Poisoned: OSError,
    aof2.RecordNotFound: LookupError,
    aof2.Refused: RuntimeError,
    aof2.SegmentNotFound: LookupError,
    aof2.Shared: RuntimeError,
    aof2.Timeout: TimeoutError,
    aof2.Trimmed: LookupError,
    aof2.WouldBlock: BlockingIOError,
}


def test_every_error_is_an_error_and_a_builtin() -> None:
    public = {
        value
        for value in vars(aof2).values()
        if isinstance(value, type) and issubclass(value, aof2.Error) and value is not aof2.Error
    }
    assert public == set(BUILTINS)
    for error, builtin in BUILTINS.items():
        assert issubclass(error, builtin), error


def raised(kind: type[E], call: Callable[[], object]) -> E:
    """Make the call fail, and check what holds for every error."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)
        for name in ("errno", "strerror", "filename"):
            assert getattr(again, name, None) == getattr(error, name, None)
    return error


def test_closed(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events")
    rid = log.append(b"x")
    log.flush()
    scan, follow = log.scan(), log.follow("earliest")
    reader = aof2.open(log.path)
    log.close()
    log.close()
    reader.close()
    reader.close()
    assert log.closed
    assert reader.closed
    for handle in (log, reader):
        calls: list[Callable[[], object]] = [
            handle.watermarks,
            handle.earliest_offset,
            handle.segments,
            handle.scan,
            handle.follow,
            handle.scan_arrow,
            handle.__enter__,
            functools.partial(handle.read, rid),
            functools.partial(handle.read_offset, 0),
            functools.partial(handle.offset_at, 0),
        ]
        for call in calls:
            assert "closed" in str(raised(aof2.Closed, call))
    writing: list[Callable[[], object]] = [
        lambda: log.append(b"x"),
        lambda: log.try_append(b"x"),
        lambda: log.append_many([b"x"]),
        lambda: log.append_many([]),
        lambda: log.append_arrow(None),
        log.flush,
        lambda: log.flush(rid),
        lambda: log.wait("durable", 1),
        log.seal,
        log.warm_up,
        log.apply_retention,
        log.metrics,
        log.metrics_text,
        lambda: log.set_ext_id(1),
        log.flush_async,
        lambda: log.append_many_async([b"x"]),
        lambda: log.wait_async("durable", 1),
        lambda: reader.writer_pid,
        lambda: reader.closed_cleanly,
    ]
    for call in writing:
        raised(aof2.Closed, call)
    # What was begun before goes on with what is there.
    assert [bytes(record) for record in scan] == [b"x"]
    assert [bytes(record) for record in follow] == [b"x"]
    assert (log.name, reader.name) == ("events", "events")


def test_closed_while_somebody_waits(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events", **QUIET)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            log.wait("durable", 5)
        except aof2.Closed as error:
            ended.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    log.close()
    waiter.join(120)
    assert [type(error) for error in ended] == [aof2.Closed]


def test_locked_names_the_holder(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        error = raised(aof2.Locked, lambda: aof2.Aof.open(log.path))
        assert (error.path, error.pid) == (log.path, os.getpid())
        assert error.errno == errno.EWOULDBLOCK
        raised(aof2.Locked, lambda: aof2.repair(log.path))
    aof2.Aof.open(tmp_path / "events").close()


def test_locked_by_another_process(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        told = run_program(
            """
            import sys, aof2
            try:
                aof2.Aof.open(sys.argv[1])
            except aof2.Locked as error:
                print(error.pid)
            """,
            log.path,
        )
    assert told == [str(os.getpid())]


def test_timeout_and_would_block(tmp_path: Path) -> None:
    """The background threads are stalled, so that nothing makes room."""
    told = run_program(
        """
        import os, pickle, sys, aof2
        from support import stall_background

        log = aof2.Aof.open(sys.argv[1], flush_interval_ms=0, flush_bytes=65536,
                            max_unflushed_bytes=65536, segment_bytes=1 << 20)
        rid = log.append(b"x")
        log.flush()
        stall_background()
        try:
            while True:
                rid = log.try_append(bytes(8000))
        except aof2.WouldBlock as error:
            error = pickle.loads(pickle.dumps(error))
            print(type(error).__name__, error.kind, isinstance(error, BlockingIOError))
        appended = log.watermarks().appended
        calls = {
            "append": lambda t: log.append(bytes(8000), timeout=t),
            "append_many": lambda t: log.append_many([bytes(8000)], timeout=t),
            "flush": lambda t: log.flush(timeout=t),
            "flush until": lambda t: log.flush(rid, timeout=t),
            "seal": lambda t: log.seal(timeout=t),
        }
        for name, call in calls.items():
            for timeout in (0, 0.06):
                try:
                    call(timeout)
                except TimeoutError as error:
                    assert type(error) is aof2.Timeout
                    print(name, log.watermarks().appended - appended)
        sys.stdout.flush()
        os._exit(0)
        """,
        tmp_path / "events",
    )
    assert told == [
        "WouldBlock flush True",
        *(
            f"{name} 0"
            for name in ("append", "append_many", "flush", "flush until", "seal")
            for _ in "12"
        ),
    ]


def test_not_a_log(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        error = raised(aof2.NotALog, functools.partial(aof2.open, path))
        assert error.path == error.filename == str(path)
        assert error.errno == errno.ENOENT
    assert not (tmp_path / "missing").exists()


def test_foreign_file(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "one") as one, aof2.Aof.open(tmp_path / "two") as two:
        one.append(b"x")
        two.append(b"x")
        two.seal()
        stranger = Path(two.segments()[0].path)
    for own in (tmp_path / "one" / "segments").iterdir():
        own.unlink()
    target = tmp_path / "one" / "segments" / stranger.name
    stranger.rename(target)
    error = raised(aof2.ForeignFile, lambda: aof2.Aof.open(tmp_path / "one"))
    assert error.path == error.filename == str(target)


def test_lookups_that_find_nothing(quiet: aof2.Aof) -> None:
    rid = quiet.append(b"x")
    quiet.flush()
    past = raised(aof2.PastEnd, lambda: quiet.read_offset(7))
    assert (past.offset, past.end) == (7, 1)
    past = raised(aof2.PastEnd, lambda: quiet.scan(9))
    assert (past.offset, past.end) == (9, 1)
    nowhere = aof2.RecordId(rid.segment_index, rid.segment_offset + 8)
    for call in (lambda: quiet.read(nowhere), lambda: quiet.scan(nowhere)):
        assert str(nowhere) in str(raised(aof2.RecordNotFound, call))
    raised(aof2.RecordNotFound, lambda: quiet.flush(aof2.RecordId(99, 64)))


def test_trimmed_says_what_is_left(quiet: aof2.Aof) -> None:
    first = quiet.append(b"x")
    quiet.seal()
    quiet.append(b"y")
    quiet.seal()
    quiet.apply_retention(before_offset=1)
    for call in (
        lambda: quiet.read(first),
        lambda: quiet.read_offset(0),
        lambda: quiet.scan(0),
        lambda: quiet.follow(first),
    ):
        assert raised(aof2.Trimmed, call).earliest == 1


def test_invalid_records(quiet: aof2.Aof) -> None:
    for call in (
        lambda: quiet.append(b""),
        lambda: quiet.try_append(bytearray()),
        lambda: quiet.append_many([b"x", b""]),
    ):
        assert "empty" in str(raised(aof2.InvalidRecord, call))
    assert "reserved" in str(raised(aof2.InvalidRecord, lambda: quiet.append(b"x", flags=1 << 9)))
    assert quiet.watermarks().appended == 0


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"segment_bytes": 100_000}, "segment_bytes"),
        ({"segment_bytes_min": 100_000}, "segment_bytes_min"),
        ({"segment_bytes_max": 100_000}, "segment_bytes_max"),
        ({"max_unflushed_bytes": 0}, "max_unflushed_bytes"),
        ({"segment_bytes_min": 1 << 21, "segment_bytes_max": 1 << 20}, "segment_bytes_min"),
        ({"segment_target_bytes": 1}, "segment_target_bytes"),
        ({"preallocate_segments": 9}, "preallocate_segments"),
        ({"flush_bytes": 0}, "flush_bytes"),
        ({"flush_bytes": 10, "max_unflushed_bytes": 5}, "max_unflushed_bytes"),
        ({"open_segments_max": 0}, "open_segments_max"),
        ({"retention_max_age_ms": 0}, "retention_max_age_ms"),
        ({"format": "compact", "ext_id": 5}, "ext_id"),
        ({"name": ""}, "name"),
    ],
)
def test_invalid_config_names_the_option(
    tmp_path: Path, options: dict[str, object], field: str
) -> None:
    error = raised(
        aof2.InvalidConfig,
        lambda: aof2.Aof.open(tmp_path / "events", **options),  # type: ignore[arg-type]
    )
    assert error.field == field
    assert field in str(error)


def test_a_directory_in_the_way_is_an_io_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    error = raised(aof2.IoError, lambda: aof2.Aof.open(tmp_path / "file" / "events"))
    assert error.errno == errno.ENOTDIR
    assert error.strerror == os.strerror(errno.ENOTDIR)
    assert error.filename.startswith(str(tmp_path))
    assert error.operation


def test_a_file_size_limit_is_an_io_error_and_nothing_is_lost(tmp_path: Path) -> None:
    """Files may not grow as large as a segment, as on a disk that is full."""
    told = run_program(
        """
        import errno, resource, signal, sys
        import aof2

        log = aof2.Aof.open(sys.argv[1], segment_bytes=64 << 10, preallocate_segments=0)
        log.append(b"before")
        log.flush()
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        try:
            while True:
                log.append(bytes(30_000))
        except aof2.IoError as error:
            print(error.errno == errno.EFBIG, error.filename.startswith(sys.argv[1]))
        print(bytes(log.read_offset(0)).decode())
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        log.append(b"after", timeout=120)
        log.close()
        """,
        tmp_path / "events",
    )
    assert told == ["True True", "before"]
    with aof2.open(tmp_path / "events") as reader:
        assert [bytes(record)[:6] for record in reader.scan()][-1] == b"after"


def test_an_exception_of_the_block_is_not_masked(tmp_path: Path) -> None:
    """Closing fails, too, for the directory is gone: a note on what was raised first."""
    with (
        pytest.raises(ZeroDivisionError, match="first") as caught,
        aof2.Aof.open(tmp_path / "one") as log,
    ):
        log.append(b"x")
        shutil.rmtree(log.path)
        raise ZeroDivisionError("first")
    (note,) = caught.value.__notes__
    assert log.path in note
    assert log.closed
    with pytest.raises(aof2.Error), aof2.Aof.open(tmp_path / "two") as log:
        log.append(b"x")
        shutil.rmtree(log.path)
    assert log.closed


def test_errors_without_a_message_still_say_something() -> None:
    assert str(aof2.Error()) == "Error"
    assert str(aof2.Closed("gone")) == "gone"
    assert repr(aof2.Closed("gone")) == "Closed('gone')"
