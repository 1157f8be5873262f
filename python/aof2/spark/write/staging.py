"""What one task writes: logs of its own, below ``_aof2_staging``, that nobody else knows.

Every attempt has a directory with a name of its own. A retry, a speculative twin and a
replayed batch therefore never meet; the driver publishes the logs of the attempts whose
messages it gets, and the others are collected when they are old.

    _aof2_staging/{partition}-{attempt}-{id}/
      part-{partition:05}-{id}              the task's log
      part-{partition:05}-{id}.{stream}     or one per stream that its rows name

`finish` returns when everything is durable: flushed, sealed, closed. A crash before
leaves a directory that is collected by its age; an error removes it at once.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import aof2
from aof2.spark.commits import staging_dir
from aof2.spark.files import Files, make_directories
from aof2.spark.write.incoming import FLAGS, PAYLOAD, TIMESTAMP, InvalidRows, Place, StreamRows
from aof2.spark.write.publish import StagedLog, refuse_log

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from aof2.spark.write.options import WriteOptions

#: Bytes that a name in a directory may have.
_NAME_LEN_MAX = 255


@dataclass
class _Log:
    """A log of this attempt; its handle is closed while too many others are open."""

    path: Path
    name: str
    handle: aof2.Aof | None = None
    rows: int = 0
    payload_bytes: int = 0


class Attempt:
    """The staging of one attempt of one task. Leaving it before `finish` removes it."""

    def __init__(self, options: WriteOptions, partition: int, attempt: int) -> None:
        self._options = options
        self._id = uuid.uuid4().hex[:16]
        self._partition = partition
        self._files = Files()
        self.path = staging_dir(options.target) / f"{partition:05}-{attempt}-{self._id}"
        #: By stream, in the order of their last use.
        self._logs: OrderedDict[str | None, _Log] = OrderedDict()
        self._manager: aof2.AofManager | None = None
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._close_all()
        finally:
            if not self._finished:
                self._files.remove_tree(self.path)

    def append(self, place: Place, part: StreamRows) -> None:
        """Append rows to the log of their stream."""
        log = self._logs.get(part.stream) or self._new_log(part.stream)
        self._logs.move_to_end(part.stream)
        columns = part.rows.schema.names
        try:
            self._handle(log).append_arrow(
                part.rows,
                column=PAYLOAD,
                timestamp_column=TIMESTAMP if TIMESTAMP in columns else None,
                flags_column=FLAGS if FLAGS in columns else None,
            )
        except ValueError as error:
            # The log counts rows of what it was given.
            within = "" if part.stream is None else f", among the rows of stream {part.stream!r}"
            raise InvalidRows(f"{place}{within}: {error}") from error
        log.rows += part.rows.num_rows
        log.payload_bytes += _payload_bytes(part)

    def finish(self) -> tuple[StagedLog, ...]:
        """Make everything durable and close it. Nothing is left of a task without rows."""
        for log in self._logs.values():
            # Sealed: nobody will append, and who opens it has nothing to scan.
            self._handle(log).seal()
            self._close(log)
        self._close_all()
        self._finished = True
        return tuple(
            StagedLog(log.path, log.rows, log.payload_bytes)
            for log in sorted(self._logs.values(), key=lambda log: log.path)
        )

    def _new_log(self, stream: str | None) -> _Log:
        if not self._logs:
            refuse_log(self._options.target)
            make_directories(self._files, self.path)
        name = f"part-{self._partition:05}-{self._id}"
        if stream is None:
            log = _Log(self.path / name, name)
        else:
            log = _Log(self.path / self._directory_name(name, stream), stream)
        self._logs[stream] = log
        return log

    def _directory_name(self, part: str, stream: str) -> str:
        # What could lead elsewhere does not stay as it is.
        name = f"{part}.{quote(stream, safe=' @+,=')}"
        if not stream or len(name.encode()) > _NAME_LEN_MAX:
            raise InvalidRows(
                f"partition {self._partition}: column stream has {stream!r}, which is "
                f"{'too long for' if stream else 'not'} the name of a log"
            )
        return name

    def _handle(self, log: _Log) -> aof2.Aof:
        if log.handle is None:
            used_longest_ago = [other for other in self._logs.values() if other.handle is not None]
            if len(used_longest_ago) >= self._options.open_streams_max:
                self._close(used_longest_ago[0])
            log.handle = self._open(log)
        return log.handle

    def _close(self, log: _Log) -> None:
        handle, log.handle = log.handle, None
        if handle is not None:
            handle.close()

    def _open(self, log: _Log) -> aof2.Aof:
        settings: dict[str, Any] = {"name": log.name, "format": self._options.format}
        if self._options.segment_bytes is not None:
            settings["segment_bytes"] = self._options.segment_bytes
        if self._options.flush_bytes is not None:
            settings["flush_bytes"] = self._options.flush_bytes
        # Nobody waits for a record before the end, so no timer has to flush.
        settings["flush_interval_ms"] = 0
        if self._manager is None:
            self._manager = aof2.AofManager(worker_threads=1)
        return self._manager.open(log.path, **settings)

    def _close_all(self) -> None:
        manager, self._manager = self._manager, None
        try:
            for log in self._logs.values():
                self._close(log)
        finally:
            if manager is not None:
                manager.shutdown()


def _payload_bytes(part: StreamRows) -> int:
    import pyarrow.compute as pc

    total: int | None = pc.sum(pc.binary_length(part.rows.column(0))).as_py()
    return total or 0
