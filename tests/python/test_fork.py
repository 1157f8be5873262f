"""After fork(): the child's handles refuse to work, and never hurt the parent's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
from support import run_program

if TYPE_CHECKING:
    from pathlib import Path

FORKED = """
    import asyncio, gc, os, sys, threading
    import aof2

    path = sys.argv[1]
    manager = aof2.AofManager()
    log = manager.open(path)
    alone = aof2.Aof.open(path + "-alone", flush_interval_ms=0)
    rid = log.append_many(b"%d" % i for i in range(3000))[0]
    log.flush()
    alone.append(b"waits for a flush")
    reader = aof2.open(path)
    scan, follow = log.scan(), log.follow("earliest")
    next(scan), next(follow)
    record = log.read(rid)
    view = record.payload
    coroutine = log.flush_async()
    arrow = log.scan_arrow()
    # Threads that are busy in the parent when it forks.
    stop = threading.Event()
    def work():
        while not stop.is_set():
            log.append(b"busy")
            log.flush()
    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()

    def refused(call):
        try:
            call()
        except aof2.ForkedHandle as error:
            assert "fork" in str(error)
        else:
            raise AssertionError(call)

    def child():
        assert log.closed and "fork" in repr(log) and "fork" in repr(manager)
        for handle in (log, alone, reader):
            for call in (handle.watermarks, handle.earliest_offset, handle.segments, handle.scan,
                         handle.follow, handle.scan_arrow, handle.__enter__):
                refused(call)
            refused(lambda: handle.read(rid))
            refused(lambda: handle.read_offset(0))
            refused(lambda: handle.offset_at(0))
        for writer in (log, alone):
            refused(lambda: writer.append(b"x"))
            refused(lambda: writer.append(bytes(100_000)))
            refused(lambda: writer.try_append(b"x"))
            refused(lambda: writer.append_many([b"x"]))
            refused(lambda: writer.append_arrow(None))
            refused(lambda: writer.set_ext_id(1))
            refused(lambda: writer.wait("durable", 1 << 40))
            refused(lambda: writer.append_many_async([b"x"]))
            refused(lambda: writer.wait_async("durable", 1))
            for call in (writer.flush, writer.seal, writer.warm_up, writer.apply_retention,
                         writer.metrics, writer.metrics_text, writer.flush_async):
                refused(call)
        async def append():
            await log.append_async(b"x")
        refused(lambda: asyncio.run(append()))
        async def flush():
            await coroutine
        refused(lambda: asyncio.run(flush()))
        refused(lambda: manager.open(path + "-2"))
        refused(lambda: manager.open_streams)
        refused(lambda: reader.writer_pid)
        refused(lambda: next(scan))
        refused(lambda: next(follow))
        # What was read stays readable, what only names things works.
        assert bytes(record) == view.tobytes() == b"0"
        assert log.name == reader.name and log.path == path
        # Closing and dropping are safe, and not the child's business.
        follow.close()
        log.close(); alone.close(); reader.close(); manager.shutdown()
        # The child has handles of its own.
        with aof2.open(path) as own:
            assert bytes(own.read(rid)) == b"0"
        try:
            aof2.Aof.open(path)
        except aof2.Locked as error:
            assert error.pid == os.getppid()
        with aof2.Aof.open(path + "-child") as own:
            own.append(b"child")
            own.flush()

    pid = os.fork()
    if pid == 0:
        try:
            child()
            del scan, follow, log, alone, reader, manager, coroutine, arrow
            gc.collect()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop.set()
    for thread in threads:
        thread.join()
    # The parent goes on as if nothing had happened.
    assert not log.closed and bytes(next(scan)) == b"1" and bytes(next(follow)) == b"1"
    alone.flush()
    assert alone.watermarks().durable == 1
    count = log.watermarks().appended
    manager.shutdown()
    alone.close()
    print(count)
"""


def test_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    (count,) = run_program(FORKED, tmp_path / "events")
    for name in ("events", "events-alone", "events-child"):
        assert aof2.verify(tmp_path / name).is_healthy
    assert aof2.verify(tmp_path / "events").record_count == int(count)


def test_a_child_that_exits_in_the_ordinary_way_leaves_the_lock(tmp_path: Path) -> None:
    """Its interpreter drops every handle on the way out."""
    told = run_program(
        """
        import os, sys
        import aof2

        log = aof2.Aof.open(sys.argv[1])
        log.append(b"parent")
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        try:
            aof2.Aof.open(sys.argv[1])
        except aof2.Locked:
            print("locked")
        log.append(b"still here")
        log.close()
        print(aof2.verify(sys.argv[1]).record_count)
        """,
        tmp_path / "events",
    )
    assert told == ["locked", "2"]


def test_workers_of_a_pool_reopen_a_reader(tmp_path: Path) -> None:
    """As PySpark does: handles travel to forked workers by pickle."""
    told = run_program(
        """
        import multiprocessing, sys
        import aof2

        def count(reader, start, end):
            return sum(1 for _ in reader.scan(start, end))

        if __name__ == "__main__":
            log = aof2.Aof.open(sys.argv[1])
            log.append_many([b"x"] * 1000)
            log.flush()
            reader = aof2.open(sys.argv[1])
            with multiprocessing.get_context("fork").Pool(2) as pool:
                parts = [(reader, i, i + 100) for i in range(0, 1000, 100)]
                print(sum(pool.starmap(count, parts)))
            log.close()
        """,
        tmp_path / "events",
    )
    assert told == ["1000"]
