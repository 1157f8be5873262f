"""Readers that this process keeps open.

Spark reuses its Python workers, and opening a log lists its directory or its prefix and
reads its footers. So a worker keeps the logs it read last. A reader sees what is appended later;
it is opened anew when another log lies in its place, and after a fork.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

import aof2
from aof2.spark.buckets import is_address

#: Enough for a directory of streams; each costs a few open files.
_KEPT_MAX = 64

_Identity = tuple[int, ...]


class OpenLogs:
    """Readers by path, the one used last at the end."""

    def __init__(self, kept_max: int = _KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._readers: OrderedDict[str, tuple[_Identity, aof2.Reader]] = OrderedDict()

    def reader(self, path: str) -> aof2.Reader:
        """Return an open reader of the log at this path.

        It is shared: do not close it. A scan keeps what it needs when it is dropped here.
        """
        if self._pid != os.getpid():
            self._start_anew()
        identity = _identity(path)
        with self._lock:
            kept = self._readers.get(path)
            if kept is not None and identity is not None and kept[0] == identity:
                self._readers.move_to_end(path)
                return kept[1]
        reader = aof2.open(path)
        with self._lock:
            self._readers.pop(path, None)
            # A log that lost its files in between is not kept.
            if identity is not None:
                self._readers[path] = (identity, reader)
            while len(self._readers) > self._kept_max:
                self._readers.popitem(last=False)
        return reader

    def clear(self) -> None:
        """Let go of all readers."""
        with self._lock:
            self._readers.clear()

    def __len__(self) -> int:
        return len(self._readers)

    def _start_anew(self) -> None:
        # The parent's readers are not ours, and its lock may be held by a thread that
        # was not forked.
        self.__init__(self._kept_max)  # type: ignore[misc]


def _identity(path: str) -> _Identity | None:
    """Return what changes when a log is deleted and made again in the same place."""
    if is_address(path):
        # Objects are never written again; a reader finds new ones by itself.
        return ()
    for name, is_written_once in (("stream", True), ("segments", False)):
        try:
            status = os.stat(os.path.join(path, name))  # noqa: PTH118, PTH116 - called per task
        except OSError:
            continue
        times = (status.st_mtime_ns,) if is_written_once else ()
        return (status.st_dev, status.st_ino, *times)
    return None


OPEN_LOGS = OpenLogs()
"""The readers of this process."""
