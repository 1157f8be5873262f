"""Copying logs into new segments.

A log has one writer, and the order of its records is its meaning. So each stream is
copied by one task, from its first record to its last, and the streams of a directory are
copied side by side. Comparing is done by many tasks: every record of the copy is read
again and compared with its original, byte for byte.

The target appears whole or not at all. Tasks write below ``.{name}.copy-{id}`` beside
it; what was compared gets its name by one rename. A failure removes the directory, a
crash leaves it, hidden from readers, to be deleted by hand.

    .{name}.copy-{id}/
      attempts/{attempt}         what one attempt of a task wrote
      logs/{stream}              the streams of a directory, about to be renamed
"""

from __future__ import annotations

import errno
import os
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
from aof2.spark.connect import is_connect
from aof2.spark.errors import InvalidOption
from aof2.spark.files import Files, make_directories
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pipelines import tasks
from aof2.spark.pipelines.offsets import ranges_in
from aof2.spark.pipelines.planning import Wanted, find_wanted, text_of
from aof2.spark.pipelines.progress import Progress, watching
from aof2.spark.pipelines.reports import Report
from aof2.spark.pipelines.sessions import running
from aof2.spark.read.schema import native_columns
from aof2.spark.read.splits import Piece, Split
from aof2.spark.streams import local_path
from aof2.spark.write.publish import TargetExists

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from aof2._types import EndLike, Format, StartLike, StrPath
    from aof2.spark.pipelines.progress import Look, ProgressCallback
    from aof2.spark.read.options import ReadOptions

_COLUMNS = ("offset", "timestamp", "flags", "payload")


class CopyFailed(aof2.Error, RuntimeError):
    """A record of the copy was not what it should be, so the copy was not kept."""


@dataclass(frozen=True)
class CopiedStream(Report):
    """One stream and its copy."""

    stream: str
    """Its key."""
    path: str
    """Directory of the copy."""
    start: int
    """First offset that was copied; the copy counts from 0."""
    end: int
    """Offset behind the last."""
    record_count: int
    """Records of the copy, each compared with its original."""
    payload_bytes: int
    """Bytes of their payloads."""
    segment_count: int
    """Segments of the copy."""
    missing: int
    """Offsets without a record: given up by a repair, or passed over as damaged."""


@dataclass(frozen=True)
class CopyReport(Report):
    """What `copy` did."""

    path: str
    """What was read."""
    target: str
    """The copy."""
    record_count: int
    """Records that were copied."""
    payload_bytes: int
    """Bytes of their payloads."""
    streams: tuple[CopiedStream, ...]
    """The streams, by key."""


def copy(
    source: StrPath,
    target: StrPath,
    *,
    spark: SparkSession | None = None,
    segment_bytes: int | None = None,
    format: Format | None = None,
    start: StartLike = "earliest",
    end: EndLike = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> CopyReport:
    """Copy a log, or all logs of a directory, into segments of another size or layout.

    Order, timestamps, flags and payloads stay; so does the log's name. Offsets count from
    0, and what belongs to segments (their `ext_id`) is not copied. One log becomes the log
    `target`, a directory of logs becomes a directory of as many. `format` is by default
    the source's, `segment_bytes` what the log chooses. The target must not exist.

    >>> copy("data/events", "data/resegmented", segment_bytes=64 << 20).record_count
    1200
    """
    wanted = find_wanted(spark, source, start=start, end=end, options=options)
    place = _Place.of(target, wanted, is_here=spark is None or not is_connect(spark))
    where = tasks.where_the_log_is
    where(spark, refuse_existing, place.target)
    with running(spark) as session:
        try:
            where(spark, _prepare, place)
            jobs = [
                _Job(each, str(place.attempts), segment_bytes, format, wanted.options)
                for each in wanted.ranges
            ]
            look = _watch_logs(place, is_here=not is_connect(session))
            state = Progress("copy", 0, wanted.record_count, "records")
            with watching(state, progress, look):
                staged = tasks.run(session, "copy", _copy_stream, jobs)
            pairs = [pair for each in staged for pair in _pairs(each, wanted)]
            tasks.run(session, "compare", _compare, pairs, progress)
            where(spark, _publish, _Ready(place, tuple(staged)))
        finally:
            where(spark, _remove, place)
    streams = tuple(_copied(place, each) for each in staged)
    return CopyReport(
        path=text_of(source),
        target=str(place.target),
        record_count=sum(each.record_count for each in streams),
        payload_bytes=sum(each.payload_bytes for each in streams),
        streams=streams,
    )


@dataclass(frozen=True)
class _Place:
    """Where the copy goes, and where it is made."""

    target: Path
    working: Path
    #: Whether the target is a log, not a directory of logs.
    is_one_log: bool

    @staticmethod
    def of(target: StrPath, wanted: Wanted, *, is_here: bool) -> _Place:
        text = os.fspath(target)
        path = Path(local_path(text) if is_here else text)
        (source,) = wanted.options.paths
        is_one_log = [each.path for each in wanted.ranges] == [source]
        working = path.with_name(f".{path.name}.copy-{uuid.uuid4().hex[:16]}")
        return _Place(path, working, is_one_log)

    @property
    def attempts(self) -> Path:
        return self.working / "attempts"

    def log(self, stream: str) -> Path:
        """Return where the copy of a stream will be."""
        return self.target if self.is_one_log else self.target / stream


def _copied(place: _Place, staged: _Staged) -> CopiedStream:
    piece = staged.piece
    return CopiedStream(
        stream=piece.stream,
        path=str(place.log(piece.stream)),
        start=piece.start,
        end=piece.end,
        record_count=staged.record_count,
        payload_bytes=staged.payload_bytes,
        segment_count=staged.segment_count,
        missing=piece.end - piece.start - staged.record_count,
    )


# ---- where the target is ----


def refuse_existing(target: Path) -> None:
    """Refuse a target that holds anything."""
    is_empty = target.is_dir() and not any(target.iterdir())
    if os.path.lexists(target) and not is_empty:
        raise _exists(target, "exists already")


def _exists(target: Path, what: str) -> TargetExists:
    error = TargetExists(f"{target} {what}, and a copy replaces nothing; name another target")
    error.filename = str(target)
    return error


def _prepare(place: _Place) -> None:
    make_directories(Files(), place.attempts)


@dataclass(frozen=True)
class _Ready:
    place: _Place
    staged: tuple[_Staged, ...]


def _publish(ready: _Ready) -> None:
    """Give the copy its name. A crash before leaves the working directory only."""
    place, files = ready.place, Files()
    if place.is_one_log:
        whole = Path(ready.staged[0].path)
    else:
        whole = place.working / "logs"
        make_directories(files, whole)
        for each in ready.staged:
            log = whole / each.piece.stream
            make_directories(files, log.parent)
            files.rename(Path(each.path), log)
            files.sync_directory(log.parent)
    try:
        files.rename(whole, place.target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise _exists(place.target, "came to be meanwhile") from error
        raise
    files.sync_directory(place.target.parent)


def _remove(place: _Place) -> None:
    Files().remove_tree(place.working)


def _watch_logs(place: _Place, *, is_here: bool) -> Look:
    """Return a function that counts what the tasks have appended so far."""

    def look() -> int | None:
        if not is_here:
            return None
        count = 0
        for log in place.attempts.glob("*"):
            try:
                with aof2.open(log) as reader:
                    count += reader.watermarks().appended
            except (aof2.Error, OSError):
                # It is being made, or was given up.
                continue
        return count

    return look


# ---- copying, in a task ----


@dataclass(frozen=True)
class _Job:
    piece: Piece
    attempts: str
    segment_bytes: int | None
    format: Format | None
    options: ReadOptions


@dataclass(frozen=True)
class _Stretch:
    """Records without a gap between them, and where the first one of the copy is."""

    start: int
    end: int
    copy_start: int


@dataclass(frozen=True)
class _Staged:
    piece: Piece
    path: str
    record_count: int
    payload_bytes: int
    segment_count: int
    stretches: tuple[_Stretch, ...]


def _batches(piece: Piece, options: ReadOptions | None = None) -> Iterator[pa.RecordBatch]:
    from aof2.spark.read.split_reader import HowToRead, SplitReader

    how = HowToRead() if options is None else HowToRead.of(options)
    return iter(SplitReader(Split((piece,)), native_columns(_COLUMNS), how))


def _copy_stream(job: _Job) -> _Staged:
    source = OPEN_LOGS.reader(job.piece.path)
    name, layout = source.name, job.format or source.format
    # It would keep mapped what is read through it.
    del source
    # An attempt of its own, so that a retry and a twin never meet.
    path = Path(job.attempts) / uuid.uuid4().hex
    settings: dict[str, Any] = {"name": name, "format": layout, "flush_interval_ms": 0}
    if job.segment_bytes is not None:
        settings["segment_bytes"] = job.segment_bytes
    try:
        with (
            aof2.AofManager(worker_threads=1) as manager,
            manager.open(path, **settings) as log,
        ):
            return _append_all(job, layout, log)
    except BaseException:
        Files().remove_tree(path)
        raise


def _append_all(job: _Job, layout: Format, log: aof2.Aof) -> _Staged:
    import pyarrow.compute as pc

    count = payload_bytes = 0
    stretches: list[_Stretch] = []
    for batch in _batches(job.piece, job.options):
        if layout == "compact":
            _refuse_flags(job.piece, batch)
        log.append_arrow(
            batch, column="payload", timestamp_column="timestamp", flags_column="flags"
        )
        for start, end in ranges_in(batch["offset"]):
            _extend(stretches, _Stretch(start, end, count))
            count += end - start
        payload_bytes += pc.sum(pc.binary_length(batch["payload"])).as_py()
    if count:
        # Sealed: nothing is left to scan for who opens it.
        log.seal()
    log.flush()
    segments = [segment for segment in log.segments() if segment.record_count]
    return _Staged(job.piece, log.path, count, payload_bytes, len(segments), tuple(stretches))


def _extend(stretches: list[_Stretch], more: _Stretch) -> None:
    if stretches and stretches[-1].end == more.start:
        stretches[-1] = replace(stretches[-1], end=more.end)
    else:
        stretches.append(more)


def _refuse_flags(piece: Piece, batch: pa.RecordBatch) -> None:
    import pyarrow.compute as pc

    flagged = batch.filter(pc.not_equal(batch["flags"], 0))
    if flagged.num_rows:
        raise InvalidOption(
            f"record {flagged['offset'][0].as_py()} of stream {piece.stream!r} has flags "
            f"{flagged['flags'][0].as_py()}, and the compact layout keeps none; "
            'copy it with format="full"',
            option="format",
        )


# ---- comparing, in a task ----


@dataclass(frozen=True)
class _Pair:
    original: Piece
    copy: Piece
    options: ReadOptions


def _pairs(staged: _Staged, wanted: Wanted) -> Iterator[_Pair]:
    """Lay the splits of the source over what was copied."""
    for split in wanted.splits:
        for piece in split.pieces:
            if piece.path != staged.piece.path:
                continue
            for stretch in staged.stretches:
                start, end = max(piece.start, stretch.start), min(piece.end, stretch.end)
                if start < end:
                    first = stretch.copy_start + start - stretch.start
                    copied = Piece(piece.stream, staged.path, first, first + end - start)
                    yield _Pair(replace(piece, start=start, end=end), copied, wanted.options)


def _compare(pair: _Pair) -> int:
    originals = _batches(pair.original, pair.options)
    copies = _Rows(_batches(pair.copy))
    shift = pair.original.start - pair.copy.start
    for batch in originals:
        rows = copies.take(batch.num_rows)
        _refuse_difference(pair, batch, rows, shift)
    return pair.original.end - pair.original.start


def _refuse_difference(
    pair: _Pair, originals: pa.RecordBatch, copies: pa.Table, shift: int
) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    first = originals["offset"][0].as_py()
    wrong = None
    if copies.num_rows != originals.num_rows:
        wrong = f"has no copy behind record {first + copies.num_rows}"
    elif not pc.all(pc.equal(pc.add(copies["offset"], shift), originals["offset"])).as_py():
        wrong = f"has other offsets from record {first} on"
    else:
        for name in ("timestamp", "flags", "payload"):
            if not copies[name].equals(pa.chunked_array([originals[name]])):
                wrong = f"has another {name} in one of {originals.num_rows} records from {first} on"
                break
    if wrong is not None:
        raise CopyFailed(
            f"the copy of stream {pair.original.stream!r} {wrong}, so it was not kept; "
            "check the disk and memory of the machines that wrote and read it"
        )


class _Rows:
    """Batches as one line of rows, to be taken in any portions."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, count: int) -> pa.Table:
        import pyarrow as pa

        taken = []
        while count:
            batch = self._rest if self._rest is not None else next(self._batches, None)
            self._rest = None
            if batch is None:
                break
            part = batch.slice(0, count)
            taken.append(part)
            if part.num_rows < batch.num_rows:
                self._rest = batch.slice(part.num_rows)
            count -= part.num_rows
        schema = native_columns(_COLUMNS).arrow_schema()
        return pa.Table.from_batches(taken, schema=schema)
