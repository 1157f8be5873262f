"""What a pipeline reads: fixed once, before anything runs, however the log grows."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import aof2
from aof2.spark.connect import is_connect
from aof2.spark.errors import InvalidOption
from aof2.spark.pipelines.tasks import where_the_log_is
from aof2.spark.read.schema import native_columns
from aof2.spark.read.splits import Piece, Split, SplitSize, plan, record_bytes_for
from aof2.spark.requirements import require_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from aof2._types import EndLike, StartLike, StrPath
    from aof2.spark.read.options import ReadOptions
    from aof2.spark.read.schema import Columns


@dataclass(frozen=True)
class Wanted:
    """The ranges of all streams, and how they are cut."""

    options: ReadOptions
    #: One for each stream, also where there is nothing to read.
    ranges: tuple[Piece, ...]
    splits: tuple[Split, ...]

    @property
    def record_count(self) -> int:
        """Offsets in the ranges; a repaired log may have fewer records."""
        return sum(each.end - each.start for each in self.ranges)

    def fixed_positions(self) -> dict[str, str]:
        """Return the options of ``spark.read`` that read these ranges again."""
        return {
            "startingOffsets": json.dumps({each.stream: each.start for each in self.ranges}),
            "endingOffsets": json.dumps({each.stream: each.end for each in self.ranges}),
        }


def find_wanted(
    spark: SparkSession | None,
    path: StrPath | Sequence[StrPath],
    *,
    start: StartLike = "earliest",
    end: EndLike = None,
    columns: Sequence[str] | None = None,
    options: dict[str, Any] | None = None,
) -> Wanted:
    """Find the streams of a path, their ranges, and cut them.

    Runs before a session is started: a log that is not there is found out at once.
    """
    require_spark()
    from aof2.spark.read.options import read_options

    given = {**(options or {}), **_positions(start, end)}
    is_here = spark is None or not is_connect(spark)
    question = _Question(
        read_options(path, given, local=is_here), native_columns(columns), start, end
    )
    return where_the_log_is(spark, _plan, question)


def _positions(start: StartLike, end: EndLike) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, position in (("starting", start), ("ending", end)):
        match position:
            case None | "earliest" | aof2.RecordId():
                # An id is looked up where the log is.
                continue
            case datetime():
                given[f"{name}Timestamp"] = _aware(position)
            case _:
                given[f"{name}Offsets"] = position
    return given


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; pass an aware datetime")
    return moment.astimezone(UTC)


@dataclass(frozen=True)
class _Question:
    options: ReadOptions
    columns: Columns
    start: StartLike
    end: EndLike


def _plan(question: _Question) -> Wanted:
    from aof2.spark.read.positions import Position, Positions
    from aof2.spark.read.ranges import batch_ranges
    from aof2.spark.streams import find_streams, place_of

    options = question.options
    options = replace(options, paths=tuple(place_of(path) for path in options.paths))
    streams = find_streams(options.paths)
    for field, position in (("starting", question.start), ("ending", question.end)):
        if isinstance(position, aof2.RecordId):
            if len(streams) != 1:
                raise InvalidOption(
                    f"record id {position.segment_index}:{position.segment_offset} names a "
                    f"record of one log, and {options.paths[0]} holds {len(streams)}",
                    option=f"{field}Offsets",
                )
            offset = streams[0].reader().read(position, visibility=options.visibility).offset
            options = replace(options, **{field: Positions(Position("offset", offset))})  # type: ignore[arg-type]
    found = batch_ranges(streams, options)
    size = SplitSize(options.max_bytes_per_partition, options.min_partitions)
    splits = plan(found, size, record_bytes_for(question.columns.native))
    ranges = (Piece(each.stream.key, each.stream.path, each.start, each.end) for each in found)
    return Wanted(options, tuple(ranges), tuple(splits))


def text_of(path: StrPath | Sequence[StrPath]) -> str:
    """Return a path, or several, as a report shows them."""
    if isinstance(path, str | os.PathLike):
        return os.fspath(path)
    return ", ".join(os.fspath(each) for each in path)
