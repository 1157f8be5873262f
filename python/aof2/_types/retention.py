"""What retention did."""

import dataclasses

from aof2._types.arguments import KeptReason
from aof2._types.log import Segment


@dataclasses.dataclass(frozen=True, slots=True)
class KeptSegment:
    """The oldest segment that retention let stay: it stops there.

    >>> rid = log.append(b"hello")
    >>> log.seal()
    >>> log.apply_retention(max_bytes=1).kept.reason
    'newest'
    """

    segment_id: int
    """Its number."""
    reason: KeptReason
    """Why it stays. "future_timestamp": its newest record is stamped later than now, so that
    no limit by age lets it go before that moment. "shared": a fork or a snapshot reads it."""
    last_timestamp_ms: int | None
    """Largest timestamp of its records, once sealed."""


@dataclasses.dataclass(frozen=True, slots=True)
class RetentionReport:
    """What retention did.

    >>> for text in (b"old", b"new"):
    ...     rid = log.append(text)
    ...     log.seal()
    >>> report = log.apply_retention(before_offset=1)
    >>> len(report.segments), report.record_count, report.held_back
    (1, 1, False)
    """

    segments: list[Segment]
    """Segments that went, oldest first."""
    record_count: int
    """Records in them."""
    bytes: int
    """Their used bytes."""
    earliest_offset: int
    """First logical offset that still exists."""
    held_back: bool
    """Whether a segment that could have gone stayed because a reader holds it."""
    kept: KeptSegment | None = None
    """The oldest segment that stays, and why; None if the log has none."""
