"""Splits in your own hands: for RDDs, and for any other engine that runs Python.

`partitions` plans where the log is to be seen; `read_partition` reads a split in any
process that sees the same path. Between them travels a `Split`, which is a few numbers
and a path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from aof2.spark.read.schema import native_columns
from aof2.spark.requirements import require_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aof2 import Record
    from aof2._types import OnCorruption, StrPath, Visibility
    from aof2.spark.read.split_reader import SplitReader
    from aof2.spark.read.splits import Split


def partitions(
    path: StrPath | Sequence[StrPath], *, columns: Sequence[str] | None = None, **options: Any
) -> list[Split]:
    """Cut a log, a directory of logs, a glob or an ``s3://`` address into splits.

    The options are those of ``spark.read.format("aof2")``, by the same names. `columns`
    says what will be read, where that is not everything: splits without payloads hold
    more records.

    >>> splits = partitions("data/events", startingOffsets=1000, minPartitions=8)
    >>> sc.parallelize(splits, len(splits)).flatMap(read_partition).count()
    """
    require_spark()
    from aof2.spark.read.batch import plan_batch
    from aof2.spark.read.options import read_options

    return plan_batch(read_options(path, options), native_columns(columns))


@overload
def read_partition(
    split: Split,
    *,
    format: Literal["records"] = "records",
    visibility: Visibility = ...,
    on_corruption: OnCorruption = ...,
    verify_checksums: bool = ...,
) -> Iterator[Record]: ...


@overload
def read_partition(
    split: Split,
    *,
    format: Literal["arrow"],
    columns: Sequence[str] | None = ...,
    visibility: Visibility = ...,
    on_corruption: OnCorruption = ...,
    verify_checksums: bool = ...,
    batch_bytes: int = ...,
) -> SplitReader: ...


def read_partition(
    split: Split,
    *,
    format: Literal["records", "arrow"] = "records",
    columns: Sequence[str] | None = None,
    visibility: Visibility = "durable",
    on_corruption: OnCorruption = "fail",
    verify_checksums: bool = True,
    batch_bytes: int = 1 << 20,
) -> Iterator[Record] | SplitReader:
    """Read a split: its records one by one, or with ``format="arrow"`` as record batches.

    Batches are much faster. `columns` are those of `scan_arrow`, by default all. The
    `skipped` of what is returned counts the records passed over, `lost` those of them that
    a repair left a gap for; the others are damaged, passed over with ``on_corruption="skip"``.

    >>> for batch in read_partition(split, format="arrow", columns=["payload"]):
    ...     print(batch.num_rows)
    """
    from aof2.spark.read.split_reader import HowToRead, RecordReader, SplitReader

    how = HowToRead(visibility, on_corruption, verify_checksums, batch_bytes=batch_bytes)
    if format == "records":
        return RecordReader(split, how)
    if format == "arrow":
        return SplitReader(split, native_columns(columns), how)
    raise ValueError(f'format: {format!r} is not allowed; give "records" or "arrow"')
