"""Splits in your own hands: for RDDs, and for any other engine that runs Python.

`partitions` plans where the log is to be seen; `read_partition` reads a split in any
process that sees the same path. Between them travels a `Split`, which is a few numbers
and a path.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from aof2.spark.arrival import require_spark
from aof2.spark.schema import native_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aof2 import Record
    from aof2._types import OnCorruption, StrPath, Visibility
    from aof2.spark.options import ReadOptions
    from aof2.spark.reading import SplitReader
    from aof2.spark.splits import Split


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
    from aof2.spark.batch import plan_batch

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
    from aof2.spark.reading import HowToRead, RecordReader, SplitReader

    how = HowToRead(visibility, on_corruption, verify_checksums, batch_bytes=batch_bytes)
    if format == "records":
        return RecordReader(split, how)
    if format == "arrow":
        return SplitReader(split, native_columns(columns), how)
    raise ValueError(f'format: {format!r} is not allowed; give "records" or "arrow"')


def read_options(
    path: StrPath | Sequence[StrPath], given: dict[str, Any], *, local: bool = True
) -> ReadOptions:
    """Read options given as Python values; `local` makes paths absolute on this machine."""
    from aof2.spark.options import parse_options
    from aof2.spark.streams import place_of

    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    texts = [os.fspath(each) for each in paths]
    options = parse_options({"path": texts[0] if texts else "", **_as_text(given)}, "batch")
    return replace(options, paths=tuple(place_of(text) if local else text for text in texts))


def _as_text(given: dict[str, Any]) -> dict[str, str]:
    """Options as Spark would pass them: text."""
    import json
    from datetime import datetime

    texts = {}
    for name, value in given.items():
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, datetime):
            texts[name] = value.isoformat()
        elif isinstance(value, dict):
            texts[name] = json.dumps(value)
        else:
            texts[name] = str(value)
    return texts
