"""Threads share handles, and nobody waits with the GIL held."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import aof2
import pytest
from support import DEADLINE_S, QUIET, SMALL, run_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def joined(thread: threading.Thread) -> bool:
    thread.join(DEADLINE_S)
    return not thread.is_alive()


def test_threads_append_to_one_handle(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:

        def work(worker: int) -> list[aof2.RecordId]:
            ids = []
            for i in range(200):
                ids.append(log.append(b"%d:%d" % (worker, i) + bytes(100)))
                ids.extend(log.append_many([b"%d:many" % worker] * 5))
                if i % 50 == 0:
                    log.flush(ids[-1])
            return ids

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(8)))
        log.flush()
        ids = [rid for ids in found for rid in ids]
        assert len(set(ids)) == len(ids) == log.watermarks().durable == 8 * 200 * 6
        assert sorted(ids) == [record.id for record in log.scan()]
        for worker, own in enumerate(found):
            assert own == sorted(own)
            assert all(bytes(log.read(rid)).startswith(b"%d:" % worker) for rid in own[::97])


@pytest.mark.parametrize("kind", ["scan", "follow"])
def test_threads_share_an_iterator_and_every_record_comes_once(tmp_path: Path, kind: str) -> None:
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:
        log.append_many(b"%d" % i for i in range(20_000))
        log.flush()
        records = log.scan() if kind == "scan" else log.follow("earliest", 20_000)

        def drain(_: int) -> list[int]:
            return [record.offset for record in records]

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(drain, range(4)))
        assert Counter(offset for part in found for offset in part) == Counter(range(20_000))
        assert all(part == sorted(part) for part in found)


def test_a_thread_that_waits_lets_others_run(quiet: aof2.Aof) -> None:
    """Each wait can only end because another thread of Python does something."""
    follow = quiet.follow()
    got: list[bytes] = []
    waits = [
        in_thread(lambda: quiet.wait("appended", 1)),
        in_thread(lambda: quiet.wait("durable", 1)),
        in_thread(lambda: got.append(bytes(next(follow)))),
    ]
    quiet.append(b"news")
    quiet.flush()
    assert all(joined(thread) for thread in waits)
    assert got == [b"news"]


def test_closing_a_follow_ends_those_who_wait_for_it(quiet: aof2.Aof) -> None:
    follow = quiet.follow()
    threads = [in_thread(lambda: list(follow)) for _ in range(3)]
    follow.close()
    assert all(joined(thread) for thread in threads)


def test_verifying_lets_others_run(tmp_path: Path) -> None:
    """The callback waits for another thread, which needs the GIL to answer."""
    with aof2.Aof.open(tmp_path / "events") as log:
        log.append(b"x")
    asked, answered = threading.Event(), threading.Event()

    def answer() -> None:
        asked.wait(DEADLINE_S)
        answered.set()

    def ask(progress: aof2.VerifyProgress) -> None:
        asked.set()
        assert answered.wait(DEADLINE_S)

    thread = in_thread(answer)
    assert aof2.verify(tmp_path / "events", progress=ask).is_healthy
    assert joined(thread)


GIL_PROGRAM = """
    import os, sys, threading
    import aof2
    from support import stall_background

    log = aof2.Aof.open(sys.argv[1], flush_interval_ms=0, flush_bytes=65536,
                        max_unflushed_bytes=65536, segment_bytes=1 << 20)
    log.append(b"first")
    log.flush()
    {prepare}
    stall_background()
    def wait():
        {wait}
    threading.Thread(target=wait, daemon=True).start()
    # The other thread waits for ever. If it had the GIL, nothing would be said here.
    for _ in range(3):
        print(log.watermarks().durable, flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize(
    ("prepare", "wait"),
    [
        ("pass", "while True: log.append(bytes(8000))"),
        ("pass", "log.append_many([bytes(8000)] * 100)"),
        ("log.append(b'x')", "log.flush()"),
        ("log.append(b'x')", "log.seal()"),
    ],
    ids=["append", "append_many", "flush", "seal"],
)
def test_backpressure_and_syncs_are_waited_for_without_the_gil(
    tmp_path: Path, prepare: str, wait: str
) -> None:
    told = run_program(GIL_PROGRAM.format(prepare=prepare, wait=wait), tmp_path / "events")
    assert told == ["1"] * 3


def test_a_buffer_that_changes_meanwhile_never_damages_the_log(tmp_path: Path) -> None:
    """Checksum and copy are of the same bytes, whatever another thread does to them."""
    size = 200_000
    buffer = bytearray(size)
    stop = threading.Event()

    def scribble() -> None:
        fill = [bytes([i]) * size for i in range(256)]
        while not stop.is_set():
            for text in fill:
                buffer[:] = text

    with aof2.Aof.open(tmp_path / "events", segment_bytes=4 << 20) as log:
        thread = in_thread(scribble)
        for _ in range(50):
            log.append(buffer)
            log.append_many([buffer, memoryview(buffer)])
        stop.set()
        assert joined(thread)
        log.flush()
        assert sum(1 for _ in log.scan()) == 150
    assert aof2.verify(tmp_path / "events").is_healthy


def test_importing_starts_no_thread() -> None:
    told = run_program("import os, aof2; print(len(os.listdir('/proc/self/task')))")
    assert told == ["1"]


def test_a_handle_that_is_forgotten_closes_itself(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events", **QUIET)
    log.append(b"x")
    del log
    with aof2.open(tmp_path / "events") as reader:
        assert reader.closed_cleanly
        assert reader.watermarks().durable == 1
    aof2.Aof.open(tmp_path / "events").close()


def test_a_program_may_end_without_closing(tmp_path: Path) -> None:
    run_program(
        """
        import sys, threading
        import aof2
        log = aof2.Aof.open(sys.argv[1], flush_interval_ms=0)
        manager = aof2.AofManager()
        other = manager.open(sys.argv[1] + "-2")
        log.append(b"x")
        record = log.read_offset(0, visibility="appended")
        view = record.payload
        threading.Thread(target=lambda: log.wait("durable", 9), daemon=True).start()
        """,
        tmp_path / "events",
    )
    # The next writer finds it. A reader does only if the segment had got its name, which
    # happens in the background.
    with aof2.Aof.open(tmp_path / "events") as log:
        assert [bytes(record) for record in log.scan(visibility="appended")] == [b"x"]
