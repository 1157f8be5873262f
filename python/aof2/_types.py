"""Figures and reports as plain, immutable values, and the types of arguments."""

from __future__ import annotations

import dataclasses
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from datetime import datetime

    from aof2._aof2 import RecordId
    from aof2._manifest_types import ManifestMode

StrPath: TypeAlias = str | PathLike[str]
"""A directory."""
Visibility: TypeAlias = Literal["durable", "appended"]
"""Which records are read: only those that survive a power cut, or all."""
Level: TypeAlias = Literal["appended", "durable", "archived"]
"""A level of safety to wait for."""
OnCorruption: TypeAlias = Literal["fail", "skip"]
"""What to do about a record that does not validate."""
Format: TypeAlias = Literal["full", "compact"]
"""Record layout of a log."""
RetentionAction: TypeAlias = Literal["delete", "archive"]
"""What happens to a segment that retention lets go."""
Admission: TypeAlias = Literal["elastic", "strict"]
"""What a writer does when the hot tier is full: goes on, or waits."""
Hydrate: TypeAlias = Literal["auto", "never", "always"]
Residency: TypeAlias = Literal["hot", "warm", "cold"]
"""The nearest tier that holds a segment."""
StartLike: TypeAlias = "Literal['earliest', 'latest'] | int | RecordId | datetime"
"""Where to begin: a logical offset, a record, or an aware datetime."""
EndLike: TypeAlias = "Literal['now'] | int | RecordId | datetime | None"
"""Where to stop, not included. "now": behind what is visible at the start, where a scan stops
in any case. With None a follower never does."""
SkipReason: TypeAlias = Literal["damaged", "lost"]
"""Why a scan passed over records: they do not validate, or a repair left a gap for them."""
KeptReason: TypeAlias = Literal[
    "within_limits",
    "future_timestamp",
    "newest",
    "unsealed",
    "damaged",
    "newest_archived",
    "held",
]
"""Why retention let a segment stay."""


class OpenOptions(TypedDict, total=False):
    """Options of `AofManager.open`, the same as those of `Aof.open` but `tiers`."""

    name: str | None
    format: Format
    segment_bytes: int | None
    segment_bytes_min: int | None
    segment_bytes_max: int | None
    segment_target_bytes: int | None
    preallocate_segments: int | None
    flush_interval_ms: int | None
    flush_bytes: int | None
    max_unflushed_bytes: int | None
    retention_max_age_ms: int | None
    retention_max_bytes: int | None
    retention_action: RetentionAction
    sparse_index: bool
    open_segments_max: int | None
    ext_id: int | None
    manifest_mode: ManifestMode
    hot_bytes: int | None
    recover: bool


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


@dataclasses.dataclass(frozen=True, slots=True)
class TierMetrics:
    """What moved between the tiers of a log since it was opened.

    >>> import aof2
    >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers()) as orders:
    ...     rid = orders.append(b"hello" * 1000)
    ...     orders.seal()
    ...     gone_bytes = orders.evict(0)
    ...     moved = orders.tiers().metrics
    >>> moved.evictions, moved.compressed_raw_bytes > moved.compressed_bytes
    (1, True)
    """

    evictions: int
    """Segments that left the hot tier."""
    failures: int
    """Moves that failed; they are tried again."""
    compressions: int
    """Segments compressed."""
    compressed_raw_bytes: int
    """Their bytes before."""
    compressed_bytes: int
    """Their bytes after."""
    compression_seconds: float
    """Time it took."""
    hydrations: int
    """Segments that came back."""
    hydration_seconds: float
    """Time it took."""
    warm_evictions: int
    """Compressed files that left because the object store has them."""
    uploads: int
    """Segments that the object store got."""
    uploaded_bytes: int
    """Their bytes there."""
    upload_seconds: float
    """Time it took."""
    deletes: int
    """Objects deleted."""
    cold_failures: int
    """Work with the object store that failed; it is tried again."""
    cold_missing: int
    """Segments that should have been in the object store and were not."""
    scrubbed_bytes: int
    """Bytes that scrubs read."""
    scrubbed_segments: int
    """Segments whose copies scrubs checked."""
    damage_found: int
    """Copies that scrubs found damaged or gone."""
    healed: int
    """Those of them that were replaced."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class ColdLocation:
    """Where the archived segments of a log are."""

    url: str
    """s3://bucket/prefix."""
    endpoint: str | None
    """Address of the store; None: S3 itself."""
    region: str | None
    """Its region; None: what the environment says."""
    path_style: bool | None
    """Whether the bucket stands in the path; None: where there is an endpoint."""
    sse: str
    """How objects are encrypted."""


@dataclasses.dataclass(frozen=True, slots=True)
class ColdStatus:
    """What the object store holds of a log, and how it answers."""

    url: str
    """Where: s3://bucket/prefix."""
    segments: int
    """Segments it holds."""
    bytes: int
    """Their bytes there."""
    archived: int
    """Records below this offset are in it."""
    uploads_pending: int
    """Sealed segments that it does not hold yet."""
    deletes_pending: int
    """Objects that are to be deleted."""
    requests: int
    """Requests of all logs of the manager, retries included."""
    requests_by_kind: dict[str, int]
    """The same by what they asked for."""
    retries: int
    """Those that were not the first try."""
    failures: int
    """Those that failed, whether or not a later try succeeded."""
    bytes_in: int
    """Bytes of objects received."""
    bytes_out: int
    """Bytes of objects sent."""
    requests_per_gb: float
    """Requests per gigabyte sent or received."""
    down_since_ms: int | None
    """When the store stopped answering, milliseconds since the epoch; None while it answers."""
    outages: int
    """How often it stopped answering."""
    probes: int
    """How often it was asked whether it is there: nothing else is sent while it is not."""
    capabilities: dict[str, bool] | None
    """What the endpoint turned out to do, once it was asked."""
    error: str | None
    """Why something that should be done is not, if so."""


@dataclasses.dataclass(frozen=True, slots=True)
class TierStatus:
    """What the tiers of a log hold now.

    >>> import aof2
    >>> with aof2.Aof.open("data/orders", tiers=aof2.Tiers(hot_bytes=1 << 20)) as orders:
    ...     status = orders.tiers()
    >>> status.hot_bytes_max, status.stream_hot_bytes_max, status.warm_segments
    (1048576, None, 0)
    """

    hot_segments: int
    """Segments in the hot tier, those being written included."""
    hot_bytes: int
    """Their bytes, as they count for the budget."""
    hot_bytes_max: int
    """Budget of all logs of the manager."""
    stream_hot_bytes_max: int | None
    """The log's own limit."""
    warm_segments: int
    """Segments with a compressed copy."""
    warm_bytes: int
    """Bytes of the copies."""
    warm_bytes_max: int | None
    """Budget of all logs of the manager."""
    cold: ColdStatus | None
    """What the object store holds, if there is one."""
    evicted_segments: int
    """Segments that are not in the hot tier."""
    pinned_segments: int
    """Segments that may not leave the hot tier."""
    activations_pending: int
    """Segments that somebody asked to come back."""
    needs_repair_segments: int
    """Segments with a copy that the last check found damaged and could not heal."""
    last_scrub_ms: int | None
    """When the last scrub of everything ended, in milliseconds since the epoch."""
    metrics: TierMetrics
    """What moved."""


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
    no limit by age lets it go before that moment."""
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
    """A notice is settled by opening the log; damage affects what had been durable."""
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
