"""Exporting a range of a log to Parquet.

Spark's own writer does the writing: it knows every filesystem and compression, and its
files appear when the job is done. Files in the order of their names hold the records in
the order of the log, a stream behind the other.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from aof2.spark.errors import invalid_value, listed
from aof2.spark.pipelines.planning import Wanted, find_wanted, text_of
from aof2.spark.pipelines.progress import watching_tasks
from aof2.spark.pipelines.reports import Report
from aof2.spark.pipelines.sessions import running
from aof2.spark.read.schema import native_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from aof2._types import EndLike, StartLike, StrPath
    from aof2.spark.pipelines.progress import ProgressCallback

Mode: TypeAlias = Literal["error", "overwrite", "append"]
"""What to do about a target that exists."""
Compression: TypeAlias = Literal["zstd", "snappy", "lz4", "gzip", "none"]
"""How the files are compressed."""

_TIMESTAMP_TYPE = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True)
class ExportedStream(Report):
    """The range of one stream that was exported."""

    stream: str
    """Its key."""
    start: int
    """First offset."""
    end: int
    """Offset behind the last."""


@dataclass(frozen=True)
class ExportReport(Report):
    """What `export` wrote."""

    path: str
    """What was read."""
    target: str
    """Directory of the Parquet files."""
    streams: tuple[ExportedStream, ...]
    """The ranges, by stream."""
    columns: tuple[str, ...]
    """Columns of the files."""
    record_count: int
    """Records that this export added to the target, counted there."""
    file_count: int
    """Files that it added."""
    missing: int
    """Offsets of the ranges without a record: given up by a repair, or passed over."""


def export(
    path: StrPath | Sequence[StrPath],
    target: StrPath,
    *,
    spark: SparkSession | None = None,
    start: StartLike = "earliest",
    end: EndLike = None,
    mode: Mode = "error",
    columns: Sequence[str] | None = None,
    compression: Compression = "zstd",
    progress: ProgressCallback | None = None,
    **options: Any,
) -> ExportReport:
    """Write a range of a log, or of many, to Parquet files below `target`.

    `start` and `end` are an offset, an aware datetime or a record id; `columns` are those
    of ``spark.read.format("aof2")``, by default all, and so are the options. Damage ends
    the export, unless ``onCorruption="skip"`` is given; nothing appears in the target then.

    >>> export("data/events", "data/events.parquet", start=1000, end=2000).record_count
    1000
    """
    _check(mode, get_args(Mode), "mode")
    _check(compression, get_args(Compression), "compression")
    wanted = find_wanted(spark, path, start=start, end=end, columns=columns, options=options)
    place = os.fspath(target)
    with running(spark) as session:
        frame = _frame(session, wanted, columns, options)
        before = _held(session, place) if mode == "append" else (0, 0)
        writer = frame.write.mode(mode).option("compression", compression)
        task_count = max(len(wanted.splits), 1)
        with (
            _exact_timestamps(session),
            watching_tasks(session, "export", task_count, progress),
        ):
            writer.parquet(place)
        after = _held(session, place)
    return ExportReport(
        path=text_of(path),
        target=place,
        streams=tuple(ExportedStream(each.stream, each.start, each.end) for each in wanted.ranges),
        columns=tuple(frame.columns),
        record_count=after[0] - before[0],
        file_count=after[1] - before[1],
        missing=wanted.record_count - (after[0] - before[0]),
    )


def _check(value: str, allowed: tuple[str, ...], name: str) -> None:
    if value not in allowed:
        raise invalid_value(name, value, listed(allowed))


def _frame(
    spark: SparkSession, wanted: Wanted, columns: Sequence[str] | None, options: dict[str, Any]
) -> DataFrame:
    """Return the records of the ranges, and no other column than asked for."""
    ranged = {"startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp"}
    others = {name: value for name, value in options.items() if name.lower() not in ranged}
    reader = spark.read.format("aof2").options(**{**others, **wanted.fixed_positions()})
    if columns is not None:
        fields = native_columns(columns).columns
        reader = reader.schema(", ".join(f"`{each.name}` {each.spark_type}" for each in fields))
    paths = list(wanted.options.paths)
    return reader.load(paths[0] if len(paths) == 1 else paths)


@contextmanager
def _exact_timestamps(spark: SparkSession) -> Iterator[None]:
    """Write timestamps as instants that every reader of Parquet understands.

    By default Spark writes 96 bits without a zone, which others take for local time.
    """
    before = spark.conf.get(_TIMESTAMP_TYPE, None)
    spark.conf.set(_TIMESTAMP_TYPE, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_TIMESTAMP_TYPE)
        else:
            spark.conf.set(_TIMESTAMP_TYPE, before)


def _held(spark: SparkSession, target: str) -> tuple[int, int]:
    """Return how many records and files a directory of Parquet files holds.

    Both stand in the files' footers.
    """
    from pyspark.errors import AnalysisException

    try:
        frame = spark.read.parquet(target)
    except AnalysisException as error:
        if error.getCondition() in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
            return 0, 0
        raise
    return frame.count(), len(frame.inputFiles())
