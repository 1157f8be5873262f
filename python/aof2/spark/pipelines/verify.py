"""Reading every record of a log and checking it, in parallel.

Each task reads one split through the same reader as everybody, with checksums. Where that
does not give every record, it walks the segment from its first one to find out what lies
there: damage with its file and byte, or a gap that an earlier repair left. Records are
what is checked here: `aof2.verify` also checks what readers do not need, such as
counters, padding and names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import aof2
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pipelines import tasks
from aof2.spark.pipelines.offsets import ranges_in
from aof2.spark.pipelines.planning import Wanted, find_wanted, text_of
from aof2.spark.pipelines.reports import Report
from aof2.spark.pipelines.sessions import running

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from aof2._types import StrPath
    from aof2.spark.pipelines.progress import ProgressCallback
    from aof2.spark.read.splits import Piece, Split


#: Bytes before the first record of a segment, and before the payload of a record; see
#: docs/format.md.
_SEGMENT_HEADER_LEN = 64
_HEADER_LEN = {"full": 32, "compact": 16}


@dataclass(frozen=True)
class Damage(Report):
    """Consecutive records that cannot be read."""

    stream: str
    """Key of the stream."""
    start: int
    """Offset of the first."""
    end: int
    """Offset behind the last."""
    path: str
    """File that is damaged or missing."""
    byte: int
    """Byte of the file where the first damage of it starts."""
    detail: str
    """What was found, in words."""


@dataclass(frozen=True)
class VerifiedStream(Report):
    """One stream as `verify` found it."""

    stream: str
    """Its key."""
    path: str
    """Its directory."""
    start: int
    """First offset that was checked."""
    end: int
    """Offset behind the last: what was durable when the check began."""
    appended: int
    """Offset behind the last record there was; from `end` on nothing was judged."""
    record_count: int
    """Intact records."""
    gaps: tuple[tuple[int, int], ...]
    """Ranges that earlier repairs gave up."""
    trimmed: int
    """Offsets that retention removed while the check ran."""


@dataclass(frozen=True)
class VerifyReport(Report):
    """What `verify` found."""

    path: str
    """What was read."""
    is_healthy: bool
    """Whether every record that had been durable is intact."""
    record_count: int
    """Intact records."""
    split_count: int
    """Splits that were read."""
    damaged_split_count: int
    """Splits with damage."""
    damages: tuple[Damage, ...]
    """What is damaged, in the order of the records."""
    streams: tuple[VerifiedStream, ...]
    """The streams, by key."""


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
        found = tasks.run(session, "verify", _verify_split, wanted.splits, progress)
    return _report(text_of(path), wanted, appended, found)


@dataclass
class _Found:
    """What one split holds."""

    #: Intact records by stream.
    intact: dict[str, int]
    damages: list[Damage]
    #: Stream and range.
    gaps: list[tuple[str, int, int]]
    #: Offsets that retention took, by stream.
    trimmed: dict[str, int]


def _appended(ranges: Sequence[Piece]) -> dict[str, int]:
    return {each.stream: OPEN_LOGS.reader(each.path).watermarks().appended for each in ranges}


def _report(
    path: str, wanted: Wanted, appended: dict[str, int], found: Sequence[_Found]
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


# ---- in a task ----


def _verify_split(split: Split) -> _Found:
    found = _Found({}, [], [], {})
    for piece in split.pieces:
        start = piece.start
        while start < piece.end:
            try:
                start = _verify_stretch(replace(piece, start=start), found)
            except aof2.Trimmed as trimmed:
                # Retention was faster; that is no damage.
                behind = min(max(trimmed.earliest, start + 1), piece.end)
                gone = found.trimmed.get(piece.stream, 0)
                found.trimmed[piece.stream] = gone + behind - start
                start = behind
    return found


def _verify_stretch(piece: Piece, found: _Found) -> int:
    """Check the records of one segment, and return where the next one begins."""
    log = OPEN_LOGS.reader(piece.path)
    segment, end = _segment_around(log, piece)
    piece = replace(piece, end=end)
    unread = 0
    if not _is_whole(log, piece):
        for hole in _holes(log, segment, piece):
            unread += hole.end - hole.start
            if hole.is_damage:
                found.damages.append(_described(log, segment, piece.stream, hole))
            else:
                found.gaps.append((piece.stream, hole.start, hole.end))
    intact = piece.end - piece.start - unread
    found.intact[piece.stream] = found.intact.get(piece.stream, 0) + intact
    return end


def _segment_around(log: aof2.Reader, piece: Piece) -> tuple[aof2.Segment, int]:
    """Return the segment where the piece begins, and where to stop."""
    segments = log.segments()
    before = [segment for segment in segments if segment.first_offset <= piece.start]
    if not before:
        raise aof2.Trimmed(
            f"record {piece.start} was removed by retention", earliest=log.earliest_offset()
        )
    behind = [segment.first_offset for segment in segments if segment.first_offset > piece.start]
    return before[-1], min([*behind, piece.end])


def _is_whole(log: aof2.Reader, piece: Piece) -> bool:
    """Whether every record of the piece is there and validates."""
    import pyarrow as pa

    at = piece.start
    try:
        # With the offset alone, footers would answer. A timestamp stands in the record,
        # which is then checked as a whole; its payload is not copied.
        scan = log.scan_arrow(at, piece.end, columns=["offset", "timestamp"])
        try:
            for batch in pa.RecordBatchReader.from_stream(scan):
                for start, end in ranges_in(batch.column(0)):
                    if start != at:
                        return False
                    at = end
        except (pa.ArrowException, OSError):
            # The scan has the log's own error; Arrow only its text.
            if scan.error is None:
                raise
            raise scan.error from None
    except aof2.Corrupt:
        return False
    return at == piece.end


@dataclass(frozen=True)
class _Hole:
    """Offsets without a readable record."""

    start: int
    end: int
    #: Where the record before them ends in its file.
    byte: int
    #: Whether something there does not validate; else a repair left a gap.
    is_damage: bool


def _holes(log: aof2.Reader, segment: aof2.Segment, piece: Piece) -> Iterator[_Hole]:
    """Walk the segment from its first record: a damaged length leads astray who jumps in."""
    header_len = _HEADER_LEN[log.format]
    at, byte, damaged = segment.first_offset, _SEGMENT_HEADER_LEN, 0
    try:
        scan = log.scan(at, piece.end, on_corruption="skip")
    except aof2.Corrupt:
        # The segment cannot be opened, or is not there.
        yield _Hole(piece.start, piece.end, byte, is_damage=True)
        return
    for record in scan:
        if at < record.offset and piece.start < record.offset:
            start = max(at, piece.start)
            yield _Hole(start, record.offset, byte, is_damage=_damaged(scan) > damaged)
        at, damaged = record.offset + 1, _damaged(scan)
        byte = record.id.segment_offset + _aligned(header_len + len(record))
    if at < piece.end:
        yield _Hole(max(at, piece.start), piece.end, byte, is_damage=_damaged(scan) > damaged)


def _damaged(scan: aof2.Scan) -> int:
    """Count those that do not validate; the others that were passed over are gaps."""
    return scan.skipped - scan.lost


def _aligned(count: int) -> int:
    return (count + 7) // 8 * 8


def _described(log: aof2.Reader, segment: aof2.Segment, stream: str, hole: _Hole) -> Damage:
    """Say what is wrong, in the words of the log if it says so of this very place."""
    damage = Damage(
        stream=stream,
        start=hole.start,
        end=hole.end,
        path=segment.path,
        byte=hole.byte,
        detail="records that do not validate",
    )
    try:
        for _ in log.scan(hole.start, hole.end):
            break
    except aof2.Corrupt as corrupt:
        is_inside = hole.start < segment.first_offset + segment.record_count
        if not is_inside or segment.damage is not None:
            # The file is missing, or too short for them.
            return replace(damage, path=corrupt.path, byte=corrupt.offset, detail=str(corrupt))
        if corrupt.offset == hole.byte:
            return replace(damage, detail=str(corrupt))
    return damage
