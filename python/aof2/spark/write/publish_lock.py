"""One publisher per target at a time.

A lock of the kernel on a file that is never removed, so it ends with the process that
held it, also by `kill -9`. Other threads of the same process are kept out too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
from typing import TYPE_CHECKING

from aof2 import Timeout
from aof2.spark.commits import commits_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Between two tries. Publishing takes milliseconds, waiting for it need not cost more.
_PAUSE_S = 0.02


class PublishLocked(Timeout):
    """Another driver was publishing to the same target for as long as this one waited."""

    path: str
    """The lock file."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


@contextlib.contextmanager
def publish_lock(
    target: Path,
    timeout_s: float,
    *,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold a target's lock; wait for it up to `timeout_s`, with 0 only try."""
    path = commits_dir(target) / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = clock() + timeout_s
        while not _try_lock(descriptor):
            if clock() >= deadline:
                raise PublishLocked(
                    f"{_holder(descriptor)} has been publishing to {target} for "
                    f"{timeout_s:g} s; two drivers write there. Option lockTimeout waits longer",
                    path=str(path),
                )
            pause(_PAUSE_S)
        # For the message above; what holds the lock is the kernel's, not this text.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode(errors="replace") or "another process"
