"""Checking the records of one split, in a task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import aof2
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pipelines.offsets import ranges_in
from aof2.spark.pipelines.verify.reports import Damage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aof2.spark.read.splits import Piece, Split

#: Bytes before the first record of a segment, and before the payload of a record; see
#: docs/format.md.
_SEGMENT_HEADER_LEN = 64
_HEADER_LEN = {"full": 32, "compact": 16}


@dataclass
class Found:
    """What one split holds."""

    #: Intact records by stream.
    intact: dict[str, int]
    damages: list[Damage]
    #: Stream and range.
    gaps: list[tuple[str, int, int]]
    #: Offsets that retention took, by stream.
    trimmed: dict[str, int]


def verify_split(split: Split) -> Found:
    """Say what a split holds: intact records, damage, gaps, and what retention took."""
    found = Found({}, [], [], {})
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


def _verify_stretch(piece: Piece, found: Found) -> int:
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
