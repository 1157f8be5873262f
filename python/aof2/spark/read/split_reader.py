"""What a task does: read a split as Arrow batches.

One way for all: batch and streaming queries, `read_partition` and `map_batches`. A task
that fails is tried again from the start of its split, so nothing is kept between tries
but open logs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from aof2 import Trimmed
from aof2.spark.errors import IncompleteRead, explained
from aof2.spark.open_logs import OPEN_LOGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aof2 import ArrowScan, Record, Scan
    from aof2._types import OnCorruption, Visibility
    from aof2.spark.read.options import ReadOptions
    from aof2.spark.read.schema import Column, Columns
    from aof2.spark.read.splits import Piece, Split

_LOG = logging.getLogger("aof2.spark")

#: Rows of a batch without payload are a few bytes each.
_BATCH_RECORDS_MIN = 64 << 10
_ROW_BYTES = 16
#: More ranges than these are only counted in a task's log.
_RANGES_SHOWN = 8


@dataclass(frozen=True)
class HowToRead:
    """The part of the options that tasks need."""

    visibility: Visibility = "durable"
    on_corruption: OnCorruption = "fail"
    #: None: where payloads are read.
    verify_checksums: bool | None = None
    fail_on_data_loss: bool = True
    batch_bytes: int = 1 << 20

    @staticmethod
    def of(options: ReadOptions) -> HowToRead:
        """Take them from the options of a query."""
        return HowToRead(
            options.visibility,
            options.on_corruption,
            options.verify_checksums,
            options.fail_on_data_loss,
            options.batch_bytes,
        )


class SplitReader:
    """The batches of one split, in order. Iterate once.

    `skipped` counts the records that were passed over so far, `lost` those of them that a
    repair left a gap for; the others are damaged.
    """

    def __init__(self, split: Split, columns: Columns, how: HowToRead) -> None:
        self._split = split
        self._columns = columns
        self._how = how
        self.skipped = 0
        self.lost = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        shaped = _shape(self._columns)
        for piece in self._split.pieces:
            for batch in self._read(piece):
                yield shaped(batch)

    def _read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        start = piece.start
        while start < piece.end:
            try:
                yield from self._scan(piece, start)
            except Trimmed as trimmed:
                # Retention was faster than this task.
                if self._how.fail_on_data_loss or trimmed.earliest <= start:
                    raise explained(trimmed) from None
                _LOG.warning(
                    "stream %s: retention removed records %d to %d before they were read",
                    piece.stream,
                    start,
                    min(trimmed.earliest, piece.end) - 1,
                )
                start = trimmed.earliest
            else:
                return

    def _scan(self, piece: Piece, start: int) -> Iterator[pa.RecordBatch]:
        how = self._how
        verify = self._columns.has_payload if how.verify_checksums is None else how.verify_checksums
        try:
            scan = OPEN_LOGS.reader(piece.path).scan_arrow(
                start,
                piece.end,
                columns=self._columns.native,
                visibility=how.visibility,
                on_corruption=how.on_corruption,
                verify_checksums=verify,
                batch_bytes=how.batch_bytes,
                batch_records=max(_BATCH_RECORDS_MIN, how.batch_bytes // _ROW_BYTES),
            )
            yield from _batches(scan)
        except Trimmed:
            raise
        except Exception as error:
            raise explained(error) from None
        self.skipped += scan.skipped
        self.lost += scan.lost
        _tell_skipped(piece, scan)
        if scan.skipped == scan.lost and scan.next_offset < piece.end:
            raise _incomplete(piece, scan.next_offset)


def _batches(scan: ArrowScan) -> Iterator[pa.RecordBatch]:
    """Pull the batches; errors are the log's own, not Arrow's words for them."""
    try:
        yield from pa.RecordBatchReader.from_stream(scan)
    except (pa.ArrowException, OSError):
        if scan.error is None:
            raise
        raise scan.error from None


def _tell_skipped(piece: Piece, scan: ArrowScan | Scan) -> None:
    """Say in the task's log what it passed over: Spark has no place for it in a result."""
    for reason, count, what in (
        ("damaged", scan.skipped - scan.lost, "damaged records"),
        ("lost", scan.lost, "records that were lost before the log was repaired"),
    ):
        if count:
            ranges = [r.records for r in scan.skipped_ranges if r.reason == reason]
            shown = ", ".join(f"{first} to {end - 1}" for first, end in ranges[:_RANGES_SHOWN])
            more = ", …" if len(ranges) > _RANGES_SHOWN else ""
            _LOG.warning(
                "stream %s: passed over %d %s: %s%s", piece.stream, count, what, shown, more
            )


def _incomplete(piece: Piece, reached: int) -> IncompleteRead:
    import socket

    return IncompleteRead(
        f"{socket.gethostname()} sees records of {piece.path} only up to {reached}, but the "
        f"plan reads up to {piece.end}: the directory is not the same on all machines, or its "
        "file system shows new data late, or records that were not durable were lost"
    )


def _shape(columns: Columns) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return what turns native batches into those of the query, without copying rows."""
    schema = columns.arrow_schema()
    native = columns.native
    places = [native.index(c.native) if c.native is not None else None for c in columns.columns]
    constants = {place: _Constant(c) for place, c in enumerate(columns.columns) if not c.native}

    def shaped(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            batch.column(place) if place is not None else constants[at].repeated(batch.num_rows)
            for at, place in enumerate(places)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return shaped


class _Constant:
    """A column that is the same in every row: made for the longest batch, cut for others."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._made: pa.Array | None = None

    def repeated(self, count: int) -> pa.Array:
        if self._made is None or len(self._made) < count:
            value = self._column.constant
            kind = pa.binary() if value is None else pa.int32()
            self._made = pa.repeat(pa.scalar(value, kind), count)
        return self._made.slice(0, count)


class RecordReader:
    """The records of one split, in order, as an iterator."""

    def __init__(self, split: Split, how: HowToRead) -> None:
        self._how = how
        self._pieces = iter(split.pieces)
        self._piece: Piece | None = None
        self._scan: Scan | None = None
        self._skipped_before = 0
        self._lost_before = 0

    @property
    def skipped(self) -> int:
        """Records that were passed over so far."""
        return self._skipped_before + (self._scan.skipped if self._scan is not None else 0)

    @property
    def lost(self) -> int:
        """Those of them that a repair left a gap for."""
        return self._lost_before + (self._scan.lost if self._scan is not None else 0)

    def __iter__(self) -> RecordReader:
        return self

    def __next__(self) -> Record:
        while True:
            scan = self._scan if self._scan is not None else self._next_scan()
            try:
                return next(scan)
            except StopIteration:
                self._finish(scan)
            except Exception as error:
                raise explained(error) from None

    def _next_scan(self) -> Scan:
        self._piece = next(self._pieces)
        how = self._how
        try:
            self._scan = OPEN_LOGS.reader(self._piece.path).scan(
                self._piece.start,
                self._piece.end,
                visibility=how.visibility,
                on_corruption=how.on_corruption,
                verify_checksums=how.verify_checksums is not False,
            )
        except Exception as error:
            raise explained(error) from None
        return self._scan

    def _finish(self, scan: Scan) -> None:
        piece = self._piece
        if piece is not None:
            _tell_skipped(piece, scan)
            if scan.skipped == scan.lost and scan.next_offset < piece.end:
                raise _incomplete(piece, scan.next_offset)
        self._skipped_before += scan.skipped
        self._lost_before += scan.lost
        self._scan = None
