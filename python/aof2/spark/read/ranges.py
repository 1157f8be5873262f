"""Positions become offsets: what exactly a query reads of each stream.

Done once, on the driver, so that all tasks agree however the log grows meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aof2.spark.errors import DataLoss, InvalidOption, listed
from aof2.spark.read.snapshots import snapshot_offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aof2
    from aof2.spark.read.options import ReadOptions
    from aof2.spark.read.positions import Position, Positions
    from aof2.spark.streams import Stream


@dataclass(frozen=True)
class StreamRange:
    """Offsets of one stream, the end not included."""

    stream: Stream
    start: int
    end: int


def end_offset(log: aof2.Reader, visibility: str = "durable") -> int:
    """Return the offset behind the last record that is visible."""
    watermarks = log.watermarks()
    return watermarks.durable if visibility == "durable" else watermarks.appended


def offset_of(log: aof2.Reader, position: Position, visibility: str = "durable") -> int:
    """Find the offset of a position in one log."""
    match position.kind:
        case "earliest":
            return log.earliest_offset()
        case "latest":
            return end_offset(log, visibility)
        case "timestamp":
            return log.offset_at(position.value, visibility=visibility)  # type: ignore[arg-type]
        case "offset":
            return position.value
        case "snapshot":
            return snapshot_offset(log, position.name)


def batch_ranges(streams: Sequence[Stream], options: ReadOptions) -> list[StreamRange]:
    """Find what a batch query reads. An end that is not written yet is the end of the log."""
    starting = positions_of(streams, options.starting, "startingOffsets")
    ending = positions_of(streams, options.ending, "endingOffsets")
    ranges = []
    for stream in streams:
        log = stream.reader()
        start = offset_of(log, starting[stream.key], options.visibility)
        visible = end_offset(log, options.visibility)
        end = min(visible, offset_of(log, ending[stream.key], options.visibility))
        kept = StreamRange(stream, start, max(start, end))
        ranges.append(after_data_loss(kept, options.fail_on_data_loss))
    return ranges


def after_data_loss(wanted: StreamRange, fail_on_data_loss: bool) -> StreamRange:
    """Cut off what retention removed, or fail if something was and that matters."""
    earliest = wanted.stream.reader().earliest_offset()
    if wanted.start >= earliest or wanted.start == wanted.end:
        return wanted
    if fail_on_data_loss:
        last = min(earliest, wanted.end) - 1
        raise DataLoss(
            f"records {wanted.start} to {last} of stream {wanted.stream.key!r} "
            f"({wanted.stream.path}) were removed by retention; the log begins at {earliest}. "
            f"Start there, or set failOnDataLoss to false to go on without them",
            stream=wanted.stream.key,
            earliest=earliest,
        )
    return StreamRange(wanted.stream, min(earliest, wanted.end), wanted.end)


def positions_of(
    streams: Sequence[Stream], positions: Positions, option: str
) -> Mapping[str, Position]:
    """Return the position of each stream by key. An option may say the log's own name."""
    if not positions.by_stream:
        return {stream.key: positions.everywhere for stream in streams}
    names = {stream.key: stream.reader().name for stream in streams}
    unknown = set(positions.by_stream) - names.keys() - set(names.values())
    if unknown:
        raise InvalidOption(
            f"option {option}: there is no stream {sorted(unknown)[0]!r}; "
            f"there is {listed(sorted(names)[:20])}",
            option=option,
        )
    named = positions.by_stream
    return {
        key: named.get(key) or named.get(name) or positions.everywhere
        for key, name in names.items()
    }
