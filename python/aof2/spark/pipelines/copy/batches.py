"""The columns that a copy keeps, as originals and copies are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aof2.spark.read.schema import native_columns
from aof2.spark.read.splits import Split

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from aof2.spark.read.options import ReadOptions
    from aof2.spark.read.splits import Piece

COLUMNS = ("offset", "timestamp", "flags", "payload")


def batches_of(piece: Piece, options: ReadOptions | None = None) -> Iterator[pa.RecordBatch]:
    """Read a piece; without options as strictly as can be."""
    from aof2.spark.read.split_reader import HowToRead, SplitReader

    how = HowToRead() if options is None else HowToRead.of(options)
    return iter(SplitReader(Split((piece,)), native_columns(COLUMNS), how))
