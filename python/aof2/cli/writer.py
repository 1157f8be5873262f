"""Who writes a log, found out from outside."""

import fcntl
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aof2 import Reader

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
