"""What can go wrong, as exceptions.

Every error derives from `Error` and from the builtin that a Python programmer would
catch. They pickle with their attributes.
"""

from __future__ import annotations

import errno as _errno
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aof2._aof2 import RecordIds


class Error(Exception):
    """Base of all errors of aof2.

    >>> import aof2
    >>> try:
    ...     aof2.open("data/nothing-here")
    ... except aof2.Error as error:
    ...     type(error).__name__
    'NotALog'
    """

    appended: RecordIds | None = None
    """Ids of the records that `append_many` had appended when it failed."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(vars(self))
        if isinstance(self, OSError):
            # These live outside the instance's dict.
            state.update(errno=self.errno, strerror=self.strerror, filename=self.filename)
        return _rebuild, (type(self), self.args, state)


def _rebuild(cls: type[Error], args: tuple[Any, ...], state: dict[str, Any]) -> Error:
    """Make an error anew without asking for the arguments of its class."""
    error = cls.__new__(cls, *args)
    error.args = args
    for name, value in state.items():
        setattr(error, name, value)
    return error


class Timeout(Error, TimeoutError):
    """A wait reached its deadline. Nothing was written by the call that waited."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = _errno.ETIMEDOUT


class WouldBlock(Error, BlockingIOError):
    """A call that does not wait would have had to. Nothing was written."""

    kind: str
    """What it would have waited for: "admission", "rollover", "flush" or "hydration"."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.errno = _errno.EWOULDBLOCK
        self.kind = kind


class Closed(Error, ValueError):
    """The handle was closed."""


class ForkedHandle(Error, RuntimeError):
    """The handle was opened before a fork(). Open the log again in this process."""


class Locked(Error, BlockingIOError):
    """Another handle is writing to this log."""

    path: str
    """Directory of the log."""
    pid: int
    """Process that holds it, 0 if that is unknown."""

    def __init__(self, message: str, *, path: str, pid: int) -> None:
        super().__init__(message)
        self.errno = _errno.EWOULDBLOCK
        self.filename = path
        self.path = path
        self.pid = pid


class Corrupt(Error, OSError):
    """Data that had been durable is damaged. The rest stays readable; see `repair`."""

    path: str
    """File that is damaged."""
    offset: int
    """Byte in the file where the damage starts."""
    records: tuple[int, int | None]
    """Logical offsets that cannot be read: the first, and the one behind the last if known."""

    def __init__(
        self, message: str, *, path: str, offset: int, records: tuple[int, int | None]
    ) -> None:
        super().__init__(message)
        self.errno = _errno.EIO
        self.filename = path
        self.path = path
        self.offset = offset
        self.records = records


class Trimmed(Error, LookupError):
    """The data was removed by retention."""

    earliest: int
    """First logical offset that still exists."""

    def __init__(self, message: str, *, earliest: int) -> None:
        super().__init__(message)
        self.earliest = earliest


class RecordNotFound(Error, LookupError):
    """No record with this id is visible."""

    is_appended: bool = False
    """Whether it is there and only not durable yet, and only durable ones were asked for."""

    def __init__(self, message: str, *, is_appended: bool = False) -> None:
        super().__init__(message)
        self.is_appended = is_appended


class SegmentNotFound(Error, LookupError):
    """The log has no sealed segment with this number."""

    segment_id: int
    """Segment that was asked for."""

    def __init__(self, message: str, *, segment_id: int) -> None:
        super().__init__(message)
        self.segment_id = segment_id


class LastCopy(Error, RuntimeError):
    """The segment stays where it is: no other tier holds a copy of it."""

    segment_id: int
    """The segment."""

    def __init__(self, message: str, *, segment_id: int) -> None:
        super().__init__(message)
        self.segment_id = segment_id


class Shared(Error, RuntimeError):
    """The segment belongs to the log that this one was forked from.

    It is moved between tiers there, or here once this log was detached.
    """

    segment_id: int
    """The segment."""
    origin: str
    """What the other log was called."""

    def __init__(self, message: str, *, segment_id: int, origin: str) -> None:
        super().__init__(message)
        self.segment_id = segment_id
        self.origin = origin


class Held(Error, RuntimeError):
    """Forks or snapshots still read what was to be removed. Drop them first."""

    path: str
    """The log."""
    holders: list[str]
    """Who holds it."""

    def __init__(self, message: str, *, path: str, holders: list[str]) -> None:
        super().__init__(message)
        self.path = path
        self.holders = holders


class PastEnd(Error, IndexError):
    """The offset is at or past the end of what may be read."""

    offset: int
    """Offset that was asked for."""
    end: int
    """First offset that is not readable yet."""
    is_appended: bool = False
    """Whether it is there and only not durable yet, and only durable ones were asked for."""

    def __init__(self, message: str, *, offset: int, end: int, is_appended: bool = False) -> None:
        super().__init__(message)
        self.offset = offset
        self.end = end
        self.is_appended = is_appended


class ColdError(Error, OSError):
    """The object store did not do what it was asked to."""

    kind: str
    """"not_found", "no_such_bucket", "denied", "throttled", "unavailable", "timeout",
    "corrupt", "exists" or "invalid_request"."""
    operation: str
    """What it was asked for: "get", "put", "list", …"""
    key: str
    """The object, or what the keys of a listing start with."""

    def __init__(self, message: str, *, kind: str, operation: str, key: str) -> None:
        super().__init__(message)
        numbers = {
            "not_found": _errno.ENOENT,
            "no_such_bucket": _errno.ENOENT,
            "denied": _errno.EACCES,
            "exists": _errno.EEXIST,
            "throttled": _errno.EAGAIN,
            "timeout": _errno.ETIMEDOUT,
        }
        self.errno = numbers.get(kind, _errno.EIO)
        self.kind = kind
        self.operation = operation
        self.key = key


class NameTaken(Error, FileExistsError):
    """Another log has this name below the prefix of the object store, or something in a catalog.

    Nothing was changed, here or there. In a catalog, choose another name. An empty directory gets that log back with
    `recover=True` or `restore`, or another `name=`; a directory with a log of its own needs
    another prefix.
    """

    name: str
    """The name."""
    url: str
    """The prefix, s3://bucket/prefix, or where in the catalog it is taken."""
    stream_id: int
    """Id of the log that has the name; 0 if it is not a log."""

    def __init__(self, message: str, *, name: str, url: str, stream_id: int) -> None:
        super().__init__(message)
        self.errno = _errno.EEXIST
        self.name = name
        self.url = url
        self.stream_id = stream_id


class Fenced(Error, OSError):
    """Another writer, here or on another machine, took the log over.

    This handle appends, flushes and archives nothing more; its reads go on. Close it, and
    open the log again to take it back.
    """

    path: str
    """Directory of the log."""
    writer: str
    """Machine and process of the other writer."""

    def __init__(self, message: str, *, path: str, writer: str) -> None:
        super().__init__(message)
        self.errno = _errno.ESTALE
        self.filename = path
        self.path = path
        self.writer = writer


class Diverged(Error, OSError):
    """This directory and the object store hold different records under the same offsets.

    Another writer went on from an earlier point. Export what is only here, move the
    directory away, and open the log again with `recover=True`.
    """

    path: str
    """Directory of the log."""
    url: str
    """The prefix, s3://bucket/prefix."""
    offset: int
    """First offset from which the two may differ."""

    def __init__(self, message: str, *, path: str, url: str, offset: int) -> None:
        super().__init__(message)
        self.errno = _errno.ESTALE
        self.filename = path
        self.path = path
        self.url = url
        self.offset = offset


class Poisoned(Error, OSError):
    """A sync failed earlier, so appends and flushes are refused. Reads go on.

    Close the log and open it again to recover what is on disk.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = _errno.EIO


class NotALog(Error, FileNotFoundError):
    """The directory holds no log."""

    path: str
    """Directory that was opened."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.errno = _errno.ENOENT
        self.filename = path
        self.path = path


class ForeignFile(Error, OSError):
    """A file in the log's directory is not of this log."""

    path: str
    """The file."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.errno = _errno.EEXIST
        self.filename = path
        self.path = path


class InvalidRecord(Error, ValueError):
    """The record can never be appended as it is."""


class InvalidConfig(Error, ValueError):
    """An option's value is not allowed."""

    field: str
    """Name of the option."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.field = field


class NoSuchDatabase(Error, LookupError):
    """The catalog has no log or page store of this name or number."""

    db: str
    """Its name or number."""

    def __init__(self, message: str, *, db: str) -> None:
        super().__init__(message)
        self.db = db


class NoSuchSnapshot(Error, LookupError):
    """There is no snapshot of this name or number."""

    name: str
    """Its name or number."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class JobPending(Error, RuntimeError):
    """An unfinished job does the same, or somebody else has the job."""

    job_id: int
    """That job."""

    def __init__(self, message: str, *, job_id: int) -> None:
        super().__init__(message)
        self.job_id = job_id


class FeedReset(Error, LookupError):
    """Changes that a reader of the change feed has not seen are not kept any more.

    Read the catalog, and go on with `feed(name, start=error.earliest)`.
    """

    cursor: str
    """Name of the reader; empty if it has none."""
    next: int
    """The generation that it would have read next."""
    earliest: int
    """The first generation that there is."""

    def __init__(self, message: str, *, cursor: str, next: int, earliest: int) -> None:
        super().__init__(message)
        self.cursor = cursor
        self.next = next
        self.earliest = earliest


class Refused(Error, RuntimeError):
    """The catalog cannot do that; the message says why. Nothing was changed."""


class NewerVersion(Error, OSError):
    """It was written by a newer version of aof2, and is not guessed at."""

    what: str
    """What."""
    found: int
    """Its version."""
    known: int
    """The newest version that this one knows."""

    def __init__(self, message: str, *, what: str, found: int, known: int) -> None:
        super().__init__(message)
        self.errno = _errno.EPROTO
        self.what = what
        self.found = found
        self.known = known


class IoError(Error, OSError):
    """The operating system refused. `errno` and `filename` are set as for any OSError."""

    operation: str
    """What was being done."""

    def __init__(self, message: str, *, operation: str, errno: int | None, filename: str) -> None:
        super().__init__(message)
        self.operation = operation
        self.errno = errno
        self.strerror = os.strerror(errno) if errno is not None else None
        self.filename = filename
