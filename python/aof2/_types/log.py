"""How far a log has got, its segments, and what a scan passed over."""

import dataclasses

from aof2._types.arguments import Residency, SkipReason


@dataclasses.dataclass(frozen=True, slots=True)
class Watermarks:
    """How far a log has got, as next logical offsets.

    >>> rid = log.append(b"hello")
    >>> log.flush()
    >>> log.watermarks()
    Watermarks(appended=1, durable=1, archived=0)
    """

    appended: int
    """Records below this survive the death of the writing process."""
    durable: int
    """Records below this survive a power cut."""
    archived: int = 0
    """Records below this survive the loss of the machine: the object store has them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a log.

    >>> rid = log.append(b"hello")
    >>> segment = log.segments()[0]
    >>> segment.segment_id, segment.first_offset, segment.record_count, segment.is_sealed
    (0, 0, 1, False)
    """

    segment_id: int
    """Its number, as in `RecordId.segment_index`."""
    path: str
    """Its file; where it would be, if the segment is warm."""
    first_offset: int
    """Logical offset of its first record."""
    record_count: int
    """Records in it; for the active segment those appended so far."""
    file_bytes: int
    """Length of the file; a sealed one has a hole behind its records."""
    used_bytes: int
    """Bytes of header and records."""
    is_sealed: bool
    """Whether it has its footer and never changes again."""
    created_ms: int
    """When it became active, milliseconds since the epoch."""
    last_timestamp_ms: int | None
    """Largest timestamp of its records, once sealed."""
    ext_id: int | None
    """Your own number, once sealed; see `Aof.set_ext_id`."""
    residency: Residency
    """The nearest tier that holds it: "hot", as a file, or "warm", compressed."""
    warm_bytes: int | None
    """Bytes of its compressed copy, if there is one."""
    cold_bytes: int | None
    """Bytes of its copy in the object store, if there is one."""
    damage: str | None
    """What was found wrong with it when the log was opened."""
    stream_id: int
    """Id of the log that it belongs to: another one, if this log was forked and shares it."""


@dataclasses.dataclass(frozen=True, slots=True)
class SkippedRange:
    """Consecutive records that a scan passed over.

    >>> scan = log.scan()
    >>> for record in scan:
    ...     print(bytes(record))
    >>> [(skipped.records, skipped.reason) for skipped in scan.skipped_ranges]
    []
    """

    records: tuple[int, int]
    """Their logical offsets: the first, and the one behind the last."""
    reason: SkipReason
    """"damaged": they do not validate, and on_corruption is "skip". "lost": they were lost
    earlier, and a repair left a gap in their place."""
