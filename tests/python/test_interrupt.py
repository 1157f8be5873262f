"""Ctrl-C ends every wait with KeyboardInterrupt, and what it leaves is whole."""

from __future__ import annotations

import ctypes
import functools
import operator
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import pytest
from support import is_asleep, start_program, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

PROGRAM = """
    import os, sys
    import aof2
    from support import stall_background

    NEVER = 1 << 60
    log = aof2.Aof.open(sys.argv[1], flush_interval_ms=0, flush_bytes=65536,
                        max_unflushed_bytes=65536, segment_bytes=1 << 20)
    log.append(b"first")
    log.flush()
    {prepare}
    print("waiting", flush=True)
    try:
        {wait}
        print("returned", flush=True)
    except KeyboardInterrupt as interrupt:
        {check}
        print("interrupted", flush=True)
    sys.stdout.flush()
    os._exit(0)
"""

WAITS = {
    "wait": ("", "log.wait('durable', NEVER)"),
    "follow": ("", "next(log.follow())"),
    "follow of a reader": ("reader = aof2.open(log.path)", "next(reader.follow())"),
    "follow of what is appended": ("", "next(log.follow(visibility='appended'))"),
    "append": (
        "stall_background()",
        "while True: log.append(bytes(8000))",
    ),
    "append_many": (
        "stall_background()",
        "log.append_many(bytes(8000) for _ in range(100))",
    ),
    "flush": ("log.append(b'x'); stall_background()", "log.flush()"),
    "flush of a record": ("rid = log.append(b'x'); stall_background()", "log.flush(rid)"),
    "seal": ("log.append(b'x'); stall_background()", "log.seal()"),
    "append_arrow": (
        "import pyarrow; stall_background()",
        "log.append_arrow(pyarrow.array([bytes(8000)] * 100))",
    ),
    "close": ("log.append(b'x'); stall_background()", "log.close()"),
    # What is raised while leaving must not get lost behind what was raised before.
    "leaving after an error": (
        "log.append(b'x'); stall_background()",
        "with log: raise LookupError",
    ),
}


def interrupt(program: subprocess.Popen[str]) -> list[str]:
    """Send SIGINT once the program's main thread sleeps, and return what it says then."""
    assert program.stdout is not None
    assert program.stderr is not None
    assert program.stdout.readline() == "waiting\n", program.stderr.read()
    wait_until(lambda: is_asleep(program.pid), "a sleeping main thread")
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=120)
    assert err == ""
    return out.splitlines()


@pytest.mark.parametrize("name", WAITS)
def test_control_c_ends_a_wait(tmp_path: Path, name: str) -> None:
    prepare, wait = WAITS[name]
    source = PROGRAM.format(prepare=prepare, wait=wait, check="pass")
    with start_program(source, tmp_path / "events") as program:
        try:
            assert interrupt(program) == ["interrupted"]
        finally:
            program.kill()


def test_an_interrupted_append_many_tells_what_is_in_the_log(tmp_path: Path) -> None:
    prepare, wait = WAITS["append_many"]
    check = "print(len(interrupt.appended), log.watermarks().appended - 1)"
    source = PROGRAM.format(prepare=prepare, wait=wait, check=check)
    with start_program(source, tmp_path / "events") as program:
        try:
            told, end = interrupt(program)
        finally:
            program.kill()
    appended, grown = map(int, told.split())
    assert end == "interrupted"
    assert appended == grown
    assert 0 < appended < 100


def interrupt_and_call(call: Callable[[], object]) -> None:
    """Make the call with Ctrl-C pressed just before it.

    No bytecode runs in between, not even that of a path, so the call has to notice.
    """
    press = ctypes.pythonapi.PyErr_SetInterrupt
    press.restype = None
    calls: list[Any] = [press, call]
    with pytest.raises(KeyboardInterrupt):
        list(map(operator.call, calls))


@pytest.mark.parametrize("function", [aof2.verify, aof2.repair])
def test_control_c_ends_verifying(tmp_path: Path, function: Callable[..., object]) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        for _ in range(3):
            log.append(b"x")
            log.seal()
    seen: list[aof2.VerifyProgress] = []
    verify = functools.partial(function, str(tmp_path / "events"), progress=seen.append)
    interrupt_and_call(verify)
    assert seen == []
    verify()
    assert len(seen) > 3


def test_control_c_ends_a_repair_before_it_writes(tmp_path: Path) -> None:
    """Without a callback no bytecode runs, so it is the repair itself that looks."""
    with aof2.Aof.open(tmp_path / "events") as log:
        log.append(b"x")
        log.seal()
        file = Path(log.segments()[0].path)
    damaged = bytearray(file.read_bytes())
    damaged[64 + 32] ^= 1
    file.write_bytes(damaged)
    interrupt_and_call(functools.partial(aof2.repair, str(tmp_path / "events")))
    assert file.read_bytes() == damaged
    assert aof2.repair(tmp_path / "events").lost[0].records == (0, 1)


def test_an_error_of_the_progress_callback_ends_verifying(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        log.append(b"x")

    def enough(progress: aof2.VerifyProgress) -> None:
        raise LookupError("enough")

    for function in (aof2.verify, aof2.repair):
        with pytest.raises(LookupError, match="enough"):
            function(tmp_path / "events", progress=enough)
