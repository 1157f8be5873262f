"""The log in asyncio: awaits end with a result, an error or a cancellation, and leave nothing."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import aof2
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NEVER = 1 << 60
QUIET: dict[str, Any] = {"flush_interval_ms": 0, "flush_bytes": 1 << 30}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[aof2.Aof]:
    with aof2.Aof.open(tmp_path / "events") as log:
        yield log


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[aof2.Aof]:
    """A log that flushes only when asked."""
    with aof2.Aof.open(tmp_path / "quiet", **QUIET) as log:
        yield log


def test_append_and_flush(quiet: aof2.Aof) -> None:
    async def main() -> None:
        first = await quiet.append_async(b"one", timestamp_ms=7, flags=1)
        ids = await quiet.append_many_async([b"two", b"three"])
        assert quiet.watermarks().durable == 0
        # As their blocking twins do: they gave an empty tuple.
        log: Any = quiet
        assert await log.flush_async(first) is None
        assert await log.flush_async() is None
        assert await quiet.wait_async("durable", 3) is True
        assert await quiet.wait_async("durable", first) is True
        assert quiet.watermarks().durable == 3
        assert [first, *ids] == [record.id for record in quiet.scan()]

    asyncio.run(main())
    record = next(quiet.scan())
    assert (bytes(record), record.timestamp_ms, record.flags) == (b"one", 7, 1)


def test_a_forgotten_await_is_told(quiet: aof2.Aof) -> None:
    """Otherwise nobody would know of the record that is not there."""
    with pytest.warns(RuntimeWarning, match=r"'Aof\.append_async' was never awaited"):
        quiet.append_async(b"x")  # type: ignore[unused-coroutine]
    with pytest.warns(RuntimeWarning, match=r"'Aof\.flush_async' was never awaited"):
        quiet.flush_async()  # type: ignore[unused-coroutine]
    assert quiet.watermarks().appended == 0
    # An error that is on its way is not disturbed.
    with pytest.warns(RuntimeWarning, match="never awaited"), pytest.raises(ZeroDivisionError):
        [quiet.append_async(b"x"), 1 / 0]


def test_a_coroutine_that_is_closed_says_nothing(quiet: aof2.Aof) -> None:
    quiet.append_async(b"x").close()
    assert quiet.watermarks().appended == 0


def test_many_awaits_at_once_all_end(log: aof2.Aof) -> None:
    async def one(i: int) -> aof2.RecordId:
        rid = await log.append_async(b"%d" % i)
        await log.flush_async(rid)
        return rid

    async def main() -> list[aof2.RecordId]:
        return await asyncio.gather(*(one(i) for i in range(300)))

    ids = asyncio.run(main())
    assert [bytes(log.read(rid)) for rid in ids] == [b"%d" % i for i in range(300)]


def test_follow_delivers_what_is_there_and_what_comes(log: aof2.Aof) -> None:
    async def main() -> list[bytes]:
        log.append(b"before")
        log.flush()
        found = []
        async for record in log.follow("earliest", 3):
            found.append(bytes(record))
            if len(found) < 3:
                await log.append_async(b"after %d" % len(found))
        return found

    assert asyncio.run(main()) == [b"before", b"after 1", b"after 2"]


def test_an_error_is_raised_where_it_is_awaited(log: aof2.Aof) -> None:
    async def main() -> None:
        with pytest.raises(aof2.InvalidRecord):
            await log.append_async(b"")
        waiting = asyncio.ensure_future(log.wait_async("durable", NEVER))
        await asyncio.sleep(0)
        await asyncio.to_thread(log.close)
        with pytest.raises(aof2.Closed):
            await waiting

    asyncio.run(main())


def test_without_a_running_loop_it_is_an_ordinary_error(log: aof2.Aof) -> None:
    with pytest.raises(RuntimeError, match="running event loop"):
        log.flush_async().__await__().__next__()


def test_a_wait_can_time_out_and_the_log_goes_on(log: aof2.Aof) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(log.wait_async("durable", NEVER), 0.01)
        await log.flush_async(await log.append_async(b"after"))

    asyncio.run(main())
    assert log.watermarks().durable == 1


def test_a_cancelled_follow_goes_on_with_the_next_await(log: aof2.Aof, quiet: aof2.Aof) -> None:
    # A cancelled await gives back what it had borrowed, so the next one gets its turn, also
    # while the thread that runs the awaits has hundreds of results to deliver.
    async def main() -> None:
        follow = quiet.follow("latest")
        for i in range(30):
            waiting = asyncio.ensure_future(anext(follow))
            busy = [asyncio.ensure_future(log.wait_async("appended", i + 1)) for _ in range(300)]
            await asyncio.sleep(0)
            log.append(b"wakes all that are busy")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            following = asyncio.ensure_future(anext(follow))
            await asyncio.sleep(0)
            quiet.append(b"%d" % i)
            quiet.flush()
            assert bytes(await following) == b"%d" % i
            await asyncio.gather(*busy)

    asyncio.run(main())


def test_a_cancelled_append_wrote_all_or_nothing(log: aof2.Aof) -> None:
    async def main() -> int:
        written = 0
        for i in range(200):
            task = asyncio.ensure_future(log.append_async(b"%d" % i))
            for _ in range(i % 4):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                continue
            written += 1
        return written

    written = asyncio.run(main())
    log.flush()
    found = [int(bytes(record)) for record in log.scan()]
    assert len(found) >= written
    assert found == sorted(set(found))


def test_two_loops_in_two_threads_do_not_mix(log: aof2.Aof) -> None:
    results: dict[int, list[int]] = {}

    def work(name: int) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            ids = []
            for i in range(100):
                ids.append(await log.append_async(b"%d %d" % (name, i)))
                assert asyncio.get_running_loop() is loop
            await log.flush_async()
            results[name] = [int(bytes(log.read(rid)).split()[1]) for rid in ids]

        asyncio.run(main())

    threads = [threading.Thread(target=work, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {0: list(range(100)), 1: list(range(100))}


def test_a_task_nobody_else_holds_is_not_lost(log: aof2.Aof) -> None:
    done: list[int] = []

    async def background() -> None:
        await log.wait_async("appended", 1)
        done.append(1)

    async def main() -> None:
        asyncio.ensure_future(background())  # noqa: RUF006
        await asyncio.sleep(0)
        gc.collect()
        log.append(b"go")
        async with asyncio.timeout(60):
            while not done:
                await asyncio.sleep(0.001)

    asyncio.run(main())
    assert done == [1]


def test_a_loop_closed_early_takes_its_awaits_with_it(log: aof2.Aof) -> None:
    class Marker:
        """What the pending coroutine holds on to."""

    marker = Marker()
    gone = threading.Event()
    weakref.finalize(marker, gone.set)

    async def wait(held: Marker) -> Marker:
        await log.wait_async("durable", NEVER)
        return held

    loop = asyncio.new_event_loop()
    # The loop reports tasks that are dropped while they wait; here that is the point.
    loop.set_exception_handler(lambda _loop, _context: None)
    task = loop.create_task(wait(marker))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del task, marker
    for _ in range(600):
        gc.collect()
        if gone.wait(0.1):
            break
    assert gone.is_set()
    log.append(b"the log is fine")
    log.flush()


def test_a_result_for_a_closed_loop_is_dropped(quiet: aof2.Aof) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda _loop, _context: None)
    tasks = [loop.create_task(_wait(quiet)) for _ in range(10)]
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    quiet.append(b"x")
    quiet.flush()
    del tasks
    gc.collect()
    asyncio.run(_wait(quiet))


async def _wait(log: aof2.Aof) -> None:
    await log.wait_async("durable", 1)
