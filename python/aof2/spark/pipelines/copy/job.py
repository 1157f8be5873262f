"""The job: every stream is copied by one task, and compared by many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aof2.spark.connect import is_connect
from aof2.spark.pipelines import tasks
from aof2.spark.pipelines.copy.appending import CopyJob, Staged, copy_stream
from aof2.spark.pipelines.copy.comparing import compare, pairs_of
from aof2.spark.pipelines.copy.reports import CopiedStream, CopyReport
from aof2.spark.pipelines.copy.target import (
    Place,
    Ready,
    prepare,
    publish,
    refuse_existing,
    remove,
    watch_logs,
)
from aof2.spark.pipelines.planning import find_wanted, text_of
from aof2.spark.pipelines.progress import Progress, watching
from aof2.spark.pipelines.sessions import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aof2._types import EndLike, Format, StartLike, StrPath
    from aof2.spark.pipelines.progress import ProgressCallback


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
    place = Place.of(target, wanted, is_here=spark is None or not is_connect(spark))
    where = tasks.where_the_log_is
    where(spark, refuse_existing, place.target)
    with running(spark) as session:
        try:
            where(spark, prepare, place)
            jobs = [
                CopyJob(each, str(place.attempts), segment_bytes, format, wanted.options)
                for each in wanted.ranges
            ]
            look = watch_logs(place, is_here=not is_connect(session))
            state = Progress("copy", 0, wanted.record_count, "records")
            with watching(state, progress, look):
                staged = tasks.run(session, "copy", copy_stream, jobs)
            pairs = [pair for each in staged for pair in pairs_of(each, wanted)]
            tasks.run(session, "compare", compare, pairs, progress)
            where(spark, publish, Ready(place, tuple(staged)))
        finally:
            where(spark, remove, place)
    streams = tuple(_copied(place, each) for each in staged)
    return CopyReport(
        path=text_of(source),
        target=str(place.target),
        record_count=sum(each.record_count for each in streams),
        payload_bytes=sum(each.payload_bytes for each in streams),
        streams=streams,
    )


def _copied(place: Place, staged: Staged) -> CopiedStream:
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
