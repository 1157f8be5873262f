"""What a scrub came to."""

import dataclasses
from typing import Any, Literal

from aof2._types.arguments import Residency


@dataclasses.dataclass(frozen=True, slots=True)
class ScrubProgress:
    """How far a scrub has got."""

    segment_id: int
    """The segment that is being checked."""
    segments: int
    """Segments that are done."""
    segments_total: int
    """Segments that there were when it began."""
    bytes: int
    """Bytes read."""
    damage_found: int
    """Copies found damaged or gone."""
    healed: int
    """Those of them that were replaced."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScrubFinding:
    """A copy that is damaged or gone."""

    segment_id: int
    """The segment."""
    tier: Residency
    """Which of its copies."""
    place: str
    """Its file or object."""
    problem: str
    """What is wrong with it."""
    outcome: Literal["healed", "damaged", "needs_repair"]
    """What was done: nothing, if healing was not asked for or is not possible."""
    healed_from: Residency | None
    """The copy that it was made from."""
    reason: str | None
    """Why it could not be healed."""
    quarantined: str | None
    """Where the damaged file is now, if it was moved."""
    unreadable: list[tuple[int, int]]
    """Logical offsets that no read gives now."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScrubUnreached:
    """A copy that could not be looked at."""

    segment_id: int
    """The segment."""
    tier: Residency
    """Which of its copies."""
    place: str
    """Its file or object."""
    error: str
    """Why not."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScrubReport:
    """What a scrub came to."""

    segments: int
    """Segments checked."""
    copies: int
    """Copies of them checked."""
    bytes: int
    """Bytes read."""
    findings: list[ScrubFinding]
    """Copies that are damaged or gone."""
    unreached: list[ScrubUnreached]
    """Copies that could not be looked at."""
    is_complete: bool
    """Whether it went to the end."""
    is_clean: bool
    """Whether everything that was looked at is good now."""

    def to_dict(self) -> dict[str, Any]:
        """Make a dictionary of plain values."""
        return dataclasses.asdict(self)
