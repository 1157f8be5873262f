"""Ranges of streams are cut into splits: what one task reads.

Think of all wanted records as one line, stream behind stream, measured in bytes. It is
cut at equal distances. So a big segment feeds many tasks, many small streams share one,
and every record is on exactly one side of every cut. Sizes come from the segments'
footers; between their ends a record's place is estimated, which costs nothing, because a
reader finds any offset of a sealed segment by its index.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aof2.spark.read.ranges import StreamRange

#: What it is worth, in bytes, to open one more log.
OPEN_COST_BYTES = 1 << 20
#: Below this a task costs more to start than it reads, unless somebody asks for it.
SPLIT_BYTES_MIN = 16 << 20
#: What a task does per record when it reads no payload: a header, or a number.
HEADER_BYTES = 128
OFFSET_BYTES = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of one log."""

    stream: str
    """Key of the stream."""
    path: str
    """Directory of the log, as every machine sees it."""
    start: int
    """Offset of the first record."""
    end: int
    """Offset behind the last record."""


@dataclass(frozen=True, slots=True)
class Split:
    """What one task reads: a small value that pickles, with no open log in it."""

    pieces: tuple[Piece, ...]

    @property
    def record_count(self) -> int:
        """Offsets in it; a repaired log may have fewer records."""
        return sum(piece.end - piece.start for piece in self.pieces)


@dataclass(frozen=True)
class SplitSize:
    """How large splits are to be."""

    bytes_max: int = 128 << 20
    #: None: one per processor of this machine, if there is enough to do.
    count_min: int | None = None

    def count_for(self, total_bytes: int) -> int:
        """Return the number of splits for this much work."""
        count = -(-total_bytes // self.bytes_max)
        if self.count_min is not None:
            return max(1, count, self.count_min)
        worthwhile = -(-total_bytes // SPLIT_BYTES_MIN)
        return max(1, count, min(worthwhile, os.cpu_count() or 1))


class SegmentSize(Protocol):
    """What planning needs to know of a segment."""

    @property
    def first_offset(self) -> int: ...  # noqa: D102
    @property
    def used_bytes(self) -> int: ...  # noqa: D102


@dataclass(frozen=True)
class Run:
    """Records of one log that lie behind one another and are about equally large."""

    stream: str
    path: str
    start: int
    end: int
    #: What reading them costs.
    bytes: int


def plan(
    ranges: Sequence[StreamRange], size: SplitSize, record_bytes: int | None = None
) -> list[Split]:
    """Cut the ranges into splits. `record_bytes` is what a record costs without payload."""
    runs: list[Run] = []
    for wanted in ranges:
        if wanted.start < wanted.end:
            segments = wanted.stream.reader().segments()
            runs += runs_of(wanted, segments, record_bytes)
    return cut(runs, size)


def runs_of(
    wanted: StreamRange,
    segments: Sequence[SegmentSize],
    record_bytes: int | None = None,
    *,
    open_bytes: int = OPEN_COST_BYTES,
) -> list[Run]:
    """Lay a range over the segments of its log.

    Covers the whole range, whatever the segments say: one that is damaged or was
    sealed a moment ago only makes the sizes less exact.
    """
    stream, path = wanted.stream.key, wanted.stream.path
    firsts = [segment.first_offset for segment in segments]
    bounds = sorted({wanted.start, *(f for f in firsts if wanted.start < f < wanted.end)})
    sizes = dict(zip(firsts, segments, strict=True))
    ends = [*bounds[1:], wanted.end]
    runs = []
    for start, end in zip(bounds, ends, strict=True):
        cost = _run_bytes(start, end, firsts, sizes, record_bytes)
        runs.append(Run(stream, path, start, end, cost))
    # The first one pays for opening the log.
    first = runs[0]
    runs[0] = Run(stream, path, first.start, first.end, first.bytes + open_bytes)
    return runs


def _run_bytes(
    start: int,
    end: int,
    firsts: Sequence[int],
    sizes: dict[int, SegmentSize],
    record_bytes: int | None,
) -> int:
    count = end - start
    if record_bytes is not None:
        return count * record_bytes
    from bisect import bisect_right

    place = bisect_right(firsts, start) - 1
    if place < 0:
        return count
    first = firsts[place]
    behind = firsts[place + 1] if place + 1 < len(firsts) else end
    held = max(behind - first, 1)
    return max(count, sizes[first].used_bytes * count // held)


def cut(runs: Sequence[Run], size: SplitSize) -> list[Split]:
    """Cut the line of runs at equal distances; every offset lands in exactly one split."""
    runs = [run for run in runs if run.start < run.end]
    total_bytes = sum(run.bytes for run in runs)
    record_count = sum(run.end - run.start for run in runs)
    if record_count == 0:
        return []
    count = min(size.count_for(total_bytes), record_count)
    splits: list[Split] = []
    pieces: list[Piece] = []
    done_bytes = 0
    for run in runs:
        for start, end, is_cut in _cuts(run, done_bytes, total_bytes, count):
            if start < end:
                _extend(pieces, Piece(run.stream, run.path, start, end))
            if is_cut and pieces:
                splits.append(Split(tuple(pieces)))
                pieces = []
        done_bytes += run.bytes
    if pieces:
        splits.append(Split(tuple(pieces)))
    return splits


def _cuts(
    run: Run, before_bytes: int, total_bytes: int, count: int
) -> Iterator[tuple[int, int, bool]]:
    """Parts of a run up to each cut that falls into it, and the rest."""
    start = run.start
    # The first cut behind `before_bytes` is the smallest k with k·total > before·count.
    nth = before_bytes * count // total_bytes + 1
    while nth < count and nth * total_bytes <= (before_bytes + run.bytes) * count:
        into_bytes = nth * total_bytes // count - before_bytes
        end = run.start + (run.end - run.start) * max(into_bytes, 0) // max(run.bytes, 1)
        end = min(max(end, start), run.end)
        yield start, end, True
        start = end
        nth += 1
    yield start, run.end, False


def _extend(pieces: list[Piece], more: Piece) -> None:
    """Add a piece; a log's segments are read in one pass."""
    last = pieces[-1] if pieces else None
    if last is not None and last.path == more.path and last.end == more.start:
        pieces[-1] = Piece(more.stream, more.path, last.start, more.end)
    else:
        pieces.append(more)


def record_bytes_for(native_columns: Sequence[str]) -> int | None:
    """Return what a record costs to read for these columns; None if its payload is read."""
    if "payload" in native_columns:
        return None
    from aof2.spark.read.schema import KNOWN_FROM_FOOTERS

    return OFFSET_BYTES if KNOWN_FROM_FOOTERS.issuperset(native_columns) else HEADER_BYTES
