"""Opening logs, and finding out who writes one."""

import fcntl
import os
import struct
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aof2 import Aof, Reader

# struct flock of Linux on 64-bit machines: type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi4x")


@dataclass(frozen=True)
class Writer:
    """Who writes a log, or how the last one left it."""

    #: "writing", "closed", "interrupted" (it died or was killed), or "unknown".
    state: str
    #: The process that writes now; None if none does or it cannot be told.
    pid: int | None

    def describe(self) -> str:
        """For people."""
        match self.state:
            case "writing":
                return f"process {self.pid}" if self.pid else "a process of another container"
            case "closed":
                return "none, closed cleanly"
            case "interrupted":
                return "none, not closed cleanly; the next writer recovers"
        return "unknown"


def find_writer(log: "Reader") -> Writer:
    """Ask the kernel who holds the writer lock, without taking it."""
    closed = log.closed_cleanly
    # A process that opens and closes a file drops its own record locks on it. A writer
    # in this very process is therefore not looked for in the lock file.
    if log.writer_pid == os.getpid() and closed is False:
        return Writer("writing", os.getpid())
    holder = _lock_holder(Path(log.path, "lock"))
    if holder is not None:
        return Writer("writing", holder or None)
    if closed is None:
        return Writer("unknown", None)
    return Writer("closed" if closed else "interrupted", None)


def _lock_holder(path: Path) -> int | None:
    """Find the process that holds a record lock on the file.

    0 if it is one that this process cannot see, None if nobody holds it or it cannot be
    told.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        question = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
        if answer[0] == fcntl.F_UNLCK:
            return None
        if answer[4] >= 0:
            return int(answer[4])
        # The kernel does not name the holder of a lock that needs no descriptor. It says
        # itself who it is.
        line = os.read(descriptor, 16).split(b"\n")[0]
        return int(line) if line.isdigit() else 0
    except OSError:
        return None
    finally:
        os.close(descriptor)


def open_reader(path: str) -> "Reader":
    """Open the log for reading."""
    import aof2

    return aof2.open(path)


def require_log(path: str) -> None:
    """Fail as reading would if there is no log; writing would make one."""
    open_reader(path).close()


def is_address(path: str) -> bool:
    """Whether this is an address in an object store and no directory."""
    from aof2 import _aof2

    return _aof2.is_address(path)


def refuse_address(path: str) -> None:
    """Fail as opening it for writing would, before an object store is asked anything."""
    from aof2 import _aof2

    _aof2.refuse_address(path)


@contextmanager
def open_writer(
    path: str, *, no_create: bool = True, layout: str | None = None, **options: Any
) -> "Iterator[Aof]":
    """Open the log for writing, and close it at the end.

    An error of the body counts before one of closing, which often only repeats it.
    """
    import aof2

    refuse_address(path)
    if no_create:
        require_log(path)
    given = {name: value for name, value in options.items() if value is not None}
    if layout is not None:
        given["format"] = layout
    log = aof2.Aof.open(path, **given)
    try:
        yield log
    except BaseException:
        with suppress(aof2.Error):
            log.close()
        raise
    log.close()
