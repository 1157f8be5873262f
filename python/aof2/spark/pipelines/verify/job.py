"""The job: what the tasks found becomes one report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pipelines import tasks
from aof2.spark.pipelines.planning import Wanted, find_wanted, text_of
from aof2.spark.pipelines.sessions import running
from aof2.spark.pipelines.verify.reports import Damage, VerifiedStream, VerifyReport
from aof2.spark.pipelines.verify.split import Found, verify_split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from aof2._types import StrPath
    from aof2.spark.pipelines.progress import ProgressCallback
    from aof2.spark.read.splits import Piece


def verify(
    path: StrPath | Sequence[StrPath],
    *,
    spark: SparkSession | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> VerifyReport:
    """Check every durable record of a log, or of many, and say where damage is.

    Takes no lock and writes nothing. The options are those of
    ``spark.read.format("aof2")``; ``maxBytesPerPartition`` and ``minPartitions`` say how
    finely the work is cut, the positions which part is checked.

    >>> verify("data/events").is_healthy
    True
    """
    wanted = find_wanted(spark, path, columns=["payload"], options=options)
    appended = tasks.where_the_log_is(spark, _appended, wanted.ranges)
    with running(spark) as session:
        found = tasks.run(session, "verify", verify_split, wanted.splits, progress)
    return _report(text_of(path), wanted, appended, found)


def _appended(ranges: Sequence[Piece]) -> dict[str, int]:
    return {each.stream: OPEN_LOGS.reader(each.path).watermarks().appended for each in ranges}


def _report(
    path: str, wanted: Wanted, appended: dict[str, int], found: Sequence[Found]
) -> VerifyReport:
    gaps = [gap for each in found for gap in each.gaps]
    streams = tuple(
        VerifiedStream(
            stream=each.stream,
            path=each.path,
            start=each.start,
            end=each.end,
            appended=max(appended[each.stream], each.end),
            record_count=sum(one.intact.get(each.stream, 0) for one in found),
            gaps=tuple(_joined((a, b) for stream, a, b in gaps if stream == each.stream)),
            trimmed=sum(one.trimmed.get(each.stream, 0) for one in found),
        )
        for each in wanted.ranges
    )
    damages = tuple(_merged(damage for each in found for damage in each.damages))
    return VerifyReport(
        path=path,
        is_healthy=not damages,
        record_count=sum(stream.record_count for stream in streams),
        split_count=len(found),
        damaged_split_count=sum(bool(each.damages) for each in found),
        damages=damages,
        streams=streams,
    )


def _merged(damages: Iterable[Damage]) -> Iterator[Damage]:
    """Join what was cut by the border of two splits: the same place, one behind the other."""
    last: Damage | None = None
    for damage in damages:
        if last is not None and (last.path, last.byte, last.end) == (
            damage.path,
            damage.byte,
            damage.start,
        ):
            last = replace(last, end=damage.end)
            continue
        if last is not None:
            yield last
        last = damage
    if last is not None:
        yield last


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
