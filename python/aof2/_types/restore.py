"""What restoring a log from an object store came to."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far `restore` has got. What was there before counts as done."""

    segments_done: int
    """Segments done."""
    segments_total: int
    """Segments in all."""
    bytes_done: int
    """Compressed bytes done."""
    bytes_total: int
    """Compressed bytes in all."""


@dataclasses.dataclass(frozen=True, slots=True)
class MissingSegment:
    """A segment that `restore` could not bring back."""

    segment_id: int
    """Its number."""
    records: tuple[int, int | None]
    """Logical offsets of its records: the first, and the one behind the last if known."""
    reason: str
    """Why."""


@dataclasses.dataclass(frozen=True, slots=True)
class RestoreReport:
    """What `restore` came to."""

    name: str
    """Name of the stream."""
    stream_id: int
    """Id of the stream."""
    segments: int
    """Segments that are there now."""
    records: int
    """Records in them."""
    bytes: int
    """Compressed bytes that this run fetched."""
    first_offset: int
    """First logical offset of the log."""
    next_offset: int
    """First logical offset behind it."""
    missing: list[MissingSegment]
    """What is not there, oldest first."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists, for JSON."""
        return dataclasses.asdict(self)
