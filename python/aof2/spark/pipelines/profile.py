"""Counting what a log holds: per segment, and per hour of the records' timestamps.

Tasks reduce each Arrow batch to a few numbers beside the data; payloads are measured
where they are read and go nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from aof2.spark.pipelines import tasks
from aof2.spark.pipelines.planning import find_wanted, text_of
from aof2.spark.pipelines.reports import Report
from aof2.spark.pipelines.sessions import running
from aof2.spark.read.schema import native_columns
from aof2.spark.read.splits import Split

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from aof2._types import EndLike, StartLike, StrPath
    from aof2.spark.pipelines.progress import ProgressCallback
    from aof2.spark.read.options import ReadOptions

HOUR_MS = 3_600_000
_COLUMNS = ("segment_id", "timestamp", "payload")


@dataclass(frozen=True, kw_only=True)
class Figures(Report):
    """Numbers of some records."""

    record_count: int
    """Records."""
    payload_bytes: int
    """Bytes of their payloads."""
    payload_len_min: int
    """Shortest payload."""
    payload_len_max: int
    """Longest payload."""
    payload_len_mean: float
    """Mean length of a payload."""
    first_timestamp_ms: int
    """Smallest timestamp."""
    last_timestamp_ms: int
    """Largest timestamp."""
    records_per_s: float | None
    """Records per second; None where no time passed."""
    bytes_per_s: float | None
    """Payload bytes per second; None where no time passed."""


@dataclass(frozen=True, kw_only=True)
class SegmentProfile(Figures):
    """Records of one segment. Rates are over the time between its timestamps."""

    stream: str
    """Key of the stream."""
    segment_id: int
    """The segment."""


@dataclass(frozen=True, kw_only=True)
class HourProfile(Figures):
    """Records of one hour, of all streams. Rates are over the whole hour."""

    hour_ms: int
    """When the hour begins, milliseconds since the epoch, UTC."""


@dataclass(frozen=True)
class ProfileReport(Report):
    """What `profile` counted."""

    path: str
    """What was read."""
    total: Figures | None
    """All records; None if there are none."""
    segments: tuple[SegmentProfile, ...]
    """Segments with records, by stream and number."""
    hours: tuple[HourProfile, ...]
    """Hours with records, in order."""
    plot: str | None
    """The picture that was drawn."""


def profile(
    path: StrPath | Sequence[StrPath],
    *,
    spark: SparkSession | None = None,
    start: StartLike = "earliest",
    end: EndLike = None,
    plot: StrPath | None = None,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> ProfileReport:
    """Count records, bytes and rates of a log, or of many; `plot` draws them to a PNG.

    The options are those of ``spark.read.format("aof2")``. Drawing needs matplotlib:
    ``pip install 'aof2[plot]'``.

    >>> profile("data/events", plot="events.png").total.record_count
    1200
    """
    if plot is not None:
        # Not after an hour of counting.
        from aof2.spark.pipelines.plot import require_matplotlib

        require_matplotlib()
    wanted = find_wanted(spark, path, start=start, end=end, columns=_COLUMNS, options=options)
    jobs = [_Job(split, wanted.options) for split in wanted.splits]
    with running(spark) as session:
        counted = tasks.run(session, "profile", _count_split, jobs, progress)
    report = _report(text_of(path), [cell for each in counted for cell in each])
    if plot is None:
        return report
    from aof2.spark.pipelines.plot import draw

    return draw(report, plot)


class _Numbers(NamedTuple):
    """What can be added up."""

    record_count: int
    payload_bytes: int
    payload_len_min: int
    payload_len_max: int
    first_timestamp_ms: int
    last_timestamp_ms: int

    def plus(self, other: _Numbers) -> _Numbers:
        return _Numbers(
            self.record_count + other.record_count,
            self.payload_bytes + other.payload_bytes,
            min(self.payload_len_min, other.payload_len_min),
            max(self.payload_len_max, other.payload_len_max),
            min(self.first_timestamp_ms, other.first_timestamp_ms),
            max(self.last_timestamp_ms, other.last_timestamp_ms),
        )

    def figures(self, span_ms: int) -> dict[str, Any]:
        """Return the fields of `Figures`, with rates over a span of time."""
        return {
            **self._asdict(),
            "payload_len_mean": self.payload_bytes / self.record_count,
            "records_per_s": self.record_count * 1000 / span_ms if span_ms else None,
            "bytes_per_s": self.payload_bytes * 1000 / span_ms if span_ms else None,
        }

    @property
    def span_ms(self) -> int:
        return self.last_timestamp_ms - self.first_timestamp_ms


class _Cell(NamedTuple):
    """Records of one segment in one hour."""

    stream: str
    segment_id: int
    hour: int
    numbers: _Numbers


def _report(path: str, cells: Sequence[_Cell]) -> ProfileReport:
    segments = _sums(((cell.stream, cell.segment_id), cell.numbers) for cell in cells)
    hours = _sums((cell.hour, cell.numbers) for cell in cells)
    total = _sums((None, cell.numbers) for cell in cells).get(None)
    return ProfileReport(
        path=path,
        total=None if total is None else Figures(**total.figures(total.span_ms)),
        segments=tuple(
            SegmentProfile(stream=stream, segment_id=segment, **sums.figures(sums.span_ms))
            for (stream, segment), sums in sorted(segments.items())
        ),
        hours=tuple(
            HourProfile(hour_ms=hour * HOUR_MS, **sums.figures(HOUR_MS))
            for hour, sums in sorted(hours.items())
        ),
        plot=None,
    )


def _sums(items: Iterable[tuple[Any, _Numbers]]) -> dict[Any, _Numbers]:
    sums: dict[Any, _Numbers] = {}
    for key, numbers in items:
        sums[key] = sums[key].plus(numbers) if key in sums else numbers
    return sums


# ---- in a task ----


@dataclass(frozen=True)
class _Job:
    split: Split
    options: ReadOptions


def _count_split(job: _Job) -> list[_Cell]:
    from aof2.spark.read.split_reader import HowToRead, SplitReader

    how = HowToRead.of(job.options)
    cells = []
    for piece in job.split.pieces:
        batches = SplitReader(Split((piece,)), native_columns(_COLUMNS), how)
        sums = _sums(cell for batch in batches for cell in _count_batch(batch))
        cells += [
            _Cell(piece.stream, segment, hour, numbers) for (segment, hour), numbers in sums.items()
        ]
    return cells


def _count_batch(batch: pa.RecordBatch) -> Iterable[tuple[tuple[int, int], _Numbers]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    ms = pc.divide(batch["timestamp"].cast(pa.int64()), 1000)
    columns = {
        "segment": batch["segment_id"],
        "hour": pc.divide(ms, HOUR_MS),
        "ms": ms,
        "len": pc.binary_length(batch["payload"]),
    }
    wanted = [("len", "count"), ("len", "sum"), ("len", "min"), ("len", "max")]
    groups = (
        pa.table(columns)
        .group_by(["segment", "hour"])
        .aggregate([*wanted, ("ms", "min"), ("ms", "max")])
        .select(
            ["segment", "hour", "len_count", "len_sum", "len_min", "len_max", "ms_min", "ms_max"]
        )
    )
    for row in zip(*(column.to_pylist() for column in groups.columns), strict=True):
        yield (row[0], row[1]), _Numbers(*row[2:])
