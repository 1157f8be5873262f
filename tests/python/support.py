"""What the tests share: waiting on conditions, programs of their own, stalled threads."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 120
"""How long anything may take before a test gives up; never what a test measures."""

QUIET: dict[str, Any] = {"flush_interval_ms": 0, "flush_bytes": 1 << 30}
"""Options of a log that flushes only when asked."""

SMALL: dict[str, Any] = {"segment_bytes": 64 << 10}
"""Options of a log that soon has many segments."""


def wait_until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Look again and again until it is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.001)


def start_program(source: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a Python program that can import what the tests can."""
    here = str(Path(__file__).parent)
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join([here, *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def run_program(source: str, *arguments: object) -> list[str]:
    """Run a Python program to its end, without a word on stderr, and return its lines."""
    with start_program(source, *arguments) as program:
        try:
            out, err = program.communicate(timeout=DEADLINE_S)
        except BaseException:
            program.kill()
            raise
    assert (program.returncode, err) == (0, "")
    return out.splitlines()


def is_asleep(pid: int, tid: int | None = None) -> bool:
    """Whether a thread, by default the main one, waits for something."""
    stat = Path(f"/proc/{pid}/task/{tid or pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


def background_threads() -> list[int]:
    """Threads of this process that do the background work of logs."""
    threads = []
    for task in Path("/proc/self/task").iterdir():
        try:
            if (task / "comm").read_text().strip() == "aof2":
                threads.append(int(task.name))
        except FileNotFoundError:
            pass
    return threads


def stall_background() -> None:
    """Stop the background threads of all logs of this process, for good.

    What waits for them from now on waits for ever. Their signal handler is `pause`, so
    a thread that gets the signal stays in it. Call it when nothing is going on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal.restype = ctypes.c_void_p
    libc.signal(signal.SIGUSR1, ctypes.cast(libc.pause, ctypes.c_void_p))
    stalled: set[int] = set()
    # One that is not stalled yet may start others.
    while threads := set(background_threads()) - stalled:
        wait_until(lambda: all(is_asleep(os.getpid(), tid) for tid in threads), "idle threads")
        for tid in threads:
            assert libc.tgkill(os.getpid(), tid, signal.SIGUSR1) == 0
        for tid in threads:
            wait_until(functools.partial(_is_stalled, tid), "a stalled thread")
        stalled |= threads


def _is_stalled(tid: int) -> bool:
    """Whether the thread has taken its signal."""
    status = Path(f"/proc/self/task/{tid}/status").read_text()
    pending = next(line for line in status.splitlines() if line.startswith("SigPnd:"))
    return not int(pending.split()[1], 16) & (1 << (signal.SIGUSR1 - 1))
