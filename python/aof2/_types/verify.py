"""What verifying found, and what a repair did."""

import dataclasses
from typing import Any, Literal

from aof2._types.arguments import Format, Residency


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyProgress:
    """How far `verify` or `repair` has got.

    >>> import aof2
    >>> rid = log.append(b"hello")
    >>> log.close()
    >>> seen = []
    >>> report = aof2.verify(log.path, progress=seen.append)
    >>> seen[-1].segments_done, seen[-1].segments_total
    (1, 1)
    """

    bytes_done: int
    """Bytes of segments and their compressed copies done; of an address, of its objects."""
    bytes_total: int
    """Those bytes in all."""
    segments_done: int
    """Segments done."""
    segments_total: int
    """Segments in all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a log, with its place."""

    kind: str
    """What is wrong: "record", "footer", "missing_segment", "torn_tail", and so on."""
    severity: Literal["notice", "damage"]
    """Opening the log reconciles a notice; damage affects what had been durable."""
    path: str
    """File it was found in, or the directory or name pattern of a missing one."""
    offset: int
    """Byte in the file where it starts."""
    records: tuple[int, int | None]
    """Logical offsets that cannot be read: the first, and the one behind the last if known."""
    detail: str
    """What was found, in words."""

    def __str__(self) -> str:
        return f"{self.path}, byte {self.offset}: {self.detail}"


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentCheck:
    """One segment file as `verify` found it."""

    segment_id: int
    """Its number."""
    path: str
    """The file that it was judged by."""
    residency: Residency
    """What kind of file that is. A cold segment is judged by its index alone."""
    is_sealed: bool
    """Whether it has a valid footer."""
    first_offset: int
    """Logical offset of its first record."""
    record_count: int
    """Intact records in it."""
    bytes: int
    """Bytes of header and records."""
    first_timestamp_ms: int | None
    """Timestamp of its first intact record."""
    last_timestamp_ms: int | None
    """Largest timestamp in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class VerifyReport:
    """Everything that `verify` found.

    >>> import aof2
    >>> rid = log.append(b"hello")
    >>> log.close()
    >>> report = aof2.verify(log.path)
    >>> report.is_healthy, report.record_count, report.next_offset
    (True, 1, 1)
    >>> report.to_dict()["name"]
    'events'
    """

    path: str
    """Directory of the log, or its address."""
    name: str
    """Name of the stream."""
    stream_id: int
    """Id of the stream."""
    format: Format
    """Record layout."""
    is_healthy: bool
    """Whether nothing that had been durable is damaged or missing."""
    problems: list[Problem]
    """What is wrong, in the order of the records."""
    segments: list[SegmentCheck]
    """The segments, oldest first."""
    record_count: int
    """Intact records."""
    bytes: int
    """Bytes of headers and records."""
    first_offset: int
    """First logical offset."""
    next_offset: int
    """Logical offset behind the last record there is."""
    durable_offset: int | None
    """Durable records that the watermark file claims."""
    gaps: list[tuple[int, int]]
    """Ranges of records that earlier repairs gave up."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists, for JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class LostRange:
    """Records that a repair had to give up."""

    records: tuple[int, int]
    """Their logical offsets: the first, and the one behind the last."""
    segment_id: int
    """Segment that held them."""
    path: str
    """File that stands for them now."""
    bytes: tuple[int, int]
    """Bytes of that file where they were; empty if their file was missing."""
    is_exact: bool
    """Whether `records` is certain; records of the compact format do not say which they are."""


@dataclasses.dataclass(frozen=True, slots=True)
class RepairReport:
    """What `repair` did, and what the log is like now.

    >>> import aof2
    >>> log.close()
    >>> report = aof2.repair(log.path)
    >>> report.lost, report.actions, report.verify.is_healthy
    ([], [], True)
    """

    lost: list[LostRange]
    """Records that are gone, in order."""
    actions: list[str]
    """What was done, in order."""
    quarantined: list[str]
    """Originals of replaced files, where they are now."""
    verify: VerifyReport
    """The log after the repair."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain dicts and lists, for JSON."""
        return dataclasses.asdict(self)
