"""What a DataFrame hands to a task: Arrow batches, cut into the rows of each log.

No row becomes a Python object. Batches carry the session's time zone and fields that are
not nullable; neither matters here, an instant is the same in every zone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from aof2 import Error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aof2.spark.write.row_layout import RowLayout

PAYLOAD, TIMESTAMP, FLAGS = "payload", "timestamp", "flags"


class InvalidRows(Error, ValueError):
    """Rows of a DataFrame that can never be records."""


class Place(NamedTuple):
    """Where a batch is in a write, for messages."""

    partition: int
    batch: int

    def __str__(self) -> str:
        return f"partition {self.partition}, batch {self.batch}"


class StreamRows(NamedTuple):
    """Rows of one batch for one log."""

    #: None if the DataFrame has no column of that name.
    stream: str | None
    #: Columns `payload` and, if they were given, `timestamp` and `flags`.
    rows: pa.RecordBatch


def rows_by_stream(
    batches: Iterable[pa.RecordBatch], layout: RowLayout, partition: int
) -> Iterator[tuple[Place, StreamRows]]:
    """Cut every batch into the rows of each stream, in order."""
    for number, batch in enumerate(batches):
        if batch.num_rows == 0:
            continue
        place = Place(partition, number)
        rows = _record_columns(batch, layout, place)
        if layout.stream is None:
            yield place, StreamRows(None, rows)
            continue
        streams = batch.column(layout.stream)
        _refuse_nulls(streams, "stream", place)
        for part in _route(streams, rows):
            yield place, part


def _record_columns(batch: pa.RecordBatch, layout: RowLayout, place: Place) -> pa.RecordBatch:
    payload = batch.column(layout.payload)
    _refuse_nulls(payload, layout.payload_name, place)
    _refuse_empty(payload, layout.payload_name, place)
    columns, names = [payload], [PAYLOAD]
    for name, index in ((TIMESTAMP, layout.timestamp), (FLAGS, layout.flags)):
        if index is not None:
            _refuse_nulls(batch.column(index), name, place)
            columns.append(batch.column(index))
            names.append(name)
    if layout.key is not None:
        _refuse_keys(batch.column(layout.key), place)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _refuse_nulls(column: pa.Array, name: str, place: Place) -> None:
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InvalidRows(
            f"{place}, row {row}: column {name} is null; filter such rows out or use coalesce"
        )


def _refuse_empty(column: pa.Array, name: str, place: Place) -> None:
    lengths = pc.binary_length(column)
    if pc.min(lengths).as_py() == 0:
        row = pc.index(lengths, pa.scalar(0, lengths.type)).as_py()
        raise InvalidRows(
            f"{place}, row {row}: column {name} is empty, and a record has at least one byte; "
            "filter such rows out"
        )


def _refuse_keys(column: pa.Array, place: Place) -> None:
    if column.null_count < len(column):
        row = pc.index(column.is_valid(), True).as_py()
        raise InvalidRows(
            f"{place}, row {row}: column key is not null, and records have no key; "
            'option("onKey", "drop") leaves keys out'
        )


def _route(streams: pa.Array, rows: pa.RecordBatch) -> Iterator[StreamRows]:
    encoded = streams.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield StreamRows(names[0], rows)
        return
    # A stable sort keeps the order within each stream, and payloads are copied once.
    codes = encoded.indices
    sorted_rows = rows.take(pc.sort_indices(codes))
    start = 0
    counts = {c["values"]: c["counts"] for c in pc.value_counts(codes).to_pylist()}
    for code, name in enumerate(names):
        yield StreamRows(name, sorted_rows.slice(start, counts[code]))
        start += counts[code]
