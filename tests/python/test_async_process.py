"""asyncio and the life of the process: fork, Ctrl-C, exit with awaits pending."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PRELUDE = """
import asyncio, os, signal, sys, threading
import aof2
path = sys.argv[1]
NEVER = 1 << 60
"""


def run(path: Path, program: str) -> list[str]:
    """Runs a program; it must end by itself, without a word on stderr."""
    source = PRELUDE + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, str(path / "events")],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_importing_starts_no_thread(tmp_path: Path) -> None:
    printed = run(tmp_path, "print(len(os.listdir('/proc/self/task')))")
    assert printed == ["1"]


def test_a_forked_child_has_its_own_awaits(tmp_path: Path) -> None:
    program = """
    log = aof2.Aof.open(path)

    async def parent_first():
        await log.append_async(b"parent")
        await log.flush_async()

    asyncio.run(parent_first())
    child = os.fork()
    if child == 0:
        async def in_child():
            try:
                await log.flush_async()
            except aof2.ForkedHandle:
                print("refused", flush=True)
            with aof2.Aof.open(path + "-child") as own:
                await own.flush_async(await own.append_async(b"child"))
                print(bytes(next(own.scan())).decode(), flush=True)
        asyncio.run(in_child())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asyncio.run(parent_first())
    print(log.watermarks().durable)
    log.close()
    """
    assert run(tmp_path, program) == ["refused", "child", "2"]


def test_a_child_forked_with_awaits_pending_exits_normally(tmp_path: Path) -> None:
    program = """
    log = aof2.Aof.open(path)
    loop = asyncio.new_event_loop()

    async def wait():
        await log.wait_async("durable", NEVER)

    pending = [loop.create_task(wait()) for _ in range(20)]
    loop.run_until_complete(asyncio.sleep(0))

    def cancel_all():
        for task in pending:
            task.cancel()
        ended = loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        print(all(isinstance(e, asyncio.CancelledError) for e in ended), flush=True)

    child = os.fork()
    if child == 0:
        cancel_all()
        # The exit of the interpreter, with its hooks; not os._exit.
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    cancel_all()
    loop.close()
    log.close()
    """
    assert run(tmp_path, program) == ["True", "True"]


def test_control_c_ends_asyncio_run(tmp_path: Path) -> None:
    program = """
    log = aof2.Aof.open(path)

    async def main():
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await log.wait_async("durable", NEVER)
        except asyncio.CancelledError:
            print("cancelled")
            raise

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
    log.append(b"still works")
    log.close()
    """
    assert run(tmp_path, program) == ["cancelled", "interrupted"]


def test_the_interpreter_exits_with_awaits_pending(tmp_path: Path) -> None:
    program = """
    log = aof2.Aof.open(path)
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)

    async def wait(level):
        await log.wait_async(level, NEVER)

    tasks = [loop.create_task(wait("durable")) for _ in range(50)]
    loop.run_until_complete(asyncio.sleep(0))
    print("exit")
    """
    assert run(tmp_path, program) == ["exit"]


def test_the_interpreter_exits_while_results_arrive(tmp_path: Path) -> None:
    # A daemon thread keeps awaiting while the main thread is gone.
    program = """
    log = aof2.Aof.open(path)
    begun = threading.Event()

    async def main():
        while True:
            await asyncio.gather(*(log.append_async(b"x") for _ in range(20)))
            begun.set()

    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
    begun.wait()
    print("exit")
    """
    for _ in range(5):
        assert run(tmp_path, program) == ["exit"]
