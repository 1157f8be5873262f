"""Comparing copies with their originals, in tasks: every record, byte for byte."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aof2.spark.pipelines.copy.batches import COLUMNS, batches_of
from aof2.spark.pipelines.copy.reports import CopyFailed
from aof2.spark.read.schema import native_columns
from aof2.spark.read.splits import Piece

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from aof2.spark.pipelines.copy.appending import Staged
    from aof2.spark.pipelines.planning import Wanted
    from aof2.spark.read.options import ReadOptions


@dataclass(frozen=True)
class Pair:
    """Records of an original, and their copies."""

    original: Piece
    copy: Piece
    options: ReadOptions


def pairs_of(staged: Staged, wanted: Wanted) -> Iterator[Pair]:
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
                    yield Pair(replace(piece, start=start, end=end), copied, wanted.options)


def compare(pair: Pair) -> int:
    """Compare all records of a pair, and return how many there were offsets for."""
    originals = batches_of(pair.original, pair.options)
    copies = _Rows(batches_of(pair.copy))
    shift = pair.original.start - pair.copy.start
    for batch in originals:
        rows = copies.take(batch.num_rows)
        _refuse_difference(pair, batch, rows, shift)
    return pair.original.end - pair.original.start


def _refuse_difference(pair: Pair, originals: pa.RecordBatch, copies: pa.Table, shift: int) -> None:
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
        schema = native_columns(COLUMNS).arrow_schema()
        return pa.Table.from_batches(taken, schema=schema)
