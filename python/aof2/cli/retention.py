"""Which segments retention would let go, for ``aof2 trim --dry-run``.

Decided from what a reader sees, so that a dry run needs no lock and opens nothing for
writing. The rules are those of retention: oldest first, up to the first that must stay.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

from aof2.cli.times import timestamp_ms

if TYPE_CHECKING:
    from aof2 import KeptSegment, Segment
    from aof2._types import KeptReason


@dataclass(frozen=True)
class Limits:
    """Which segments may go: those that any limit lets go."""

    before_offset: int | None = None
    max_age_ms: int | None = None
    max_bytes: int | None = None


def choose(
    segments: "list[Segment]", durable: int, limits: Limits, now_ms: int | None = None
) -> "tuple[list[Segment], KeptSegment | None]":
    """Return the segments that retention would let go, and the first that stays."""
    from aof2 import KeptSegment

    now_ms = timestamp_ms(datetime.now(UTC)) if now_ms is None else now_ms
    total = sum(segment.used_bytes for segment in segments)
    chosen: list[Segment] = []
    # Where one ends is not told by its record count: a repair may have given some up.
    ends = [segment.first_offset for segment in segments[1:]]
    for segment, end in zip_longest(segments, ends, fillvalue=None):
        if segment is None:
            break
        reason = _why_it_stays(segment, end, durable, limits, total, now_ms)
        if reason is not None:
            return chosen, KeptSegment(segment.segment_id, reason, segment.last_timestamp_ms)
        total -= segment.used_bytes
        chosen.append(segment)
    return chosen, None


def _why_it_stays(
    segment: "Segment", end: int | None, durable: int, limits: Limits, total: int, now_ms: int
) -> "KeptReason | None":
    """Judge as retention does; `end` is None for the last segment."""
    if not segment.is_sealed:
        return "unsealed"
    if segment.damage is not None:
        return "damaged"
    if end is None or end >= durable:
        return "newest"
    last_ms = segment.last_timestamp_ms or 0
    too_old = limits.max_age_ms is not None and last_ms < now_ms - limits.max_age_ms
    too_many = limits.max_bytes is not None and total > limits.max_bytes
    passed = limits.before_offset is not None and end <= limits.before_offset
    if too_old or too_many or passed:
        return None
    in_future = limits.max_age_ms is not None and last_ms > now_ms
    return "future_timestamp" if in_future else "within_limits"
