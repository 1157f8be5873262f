"""What a manifest says, as plain, immutable values."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any, Literal, TypeAlias

ManifestMode: TypeAlias = Literal["disabled", "shadow", "enabled"]
"""Whether a log records what happens to its segments."""


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestRecord:
    """One thing that happened to a segment.

    >>> record = next(iter(manifest.records()))
    >>> record.type, record.segment_id, record.details["base_offset"]
    ('SegmentOpened', 0, 0)
    """

    ordinal: int
    """Its number in the manifest, from 0, without gaps."""
    chunk_index: int
    """Chunk it stands in."""
    chunk_offset: int
    """Byte of the chunk where it starts."""
    type: str
    """What happened: "SegmentOpened", "SealSegment", "LocalEvicted", ...; "Unknown" for a
    type that this version does not know."""
    record_type: int
    """The type as a number."""
    flags: int
    """Reserved; 0."""
    segment_id: int
    """Segment it is about."""
    logical_offset: int
    """A place in the stream; which one depends on the type."""
    timestamp_ms: int
    """When it was recorded, milliseconds since the epoch."""
    details: dict[str, Any]
    """Fields of the type, by name."""

    @property
    def timestamp(self) -> datetime.datetime:
        """When it was recorded."""
        return datetime.datetime.fromtimestamp(self.timestamp_ms / 1000, datetime.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestSegment:
    """What the records about one segment add up to."""

    segment_id: int
    """Its number."""
    base_offset: int
    """Stream bytes before it."""
    epoch: int
    """Tells uploads of one number apart."""
    opened_at_ms: int
    """When it was opened."""
    updated_at_ms: int
    """When something last happened to it."""
    last_record: int
    """Ordinal of the newest record about it."""
    hot: bool
    """Whether a segment file is there."""
    durable_bytes: int | None
    """Bytes of header and records, once sealed."""
    segment_crc64: int | None
    """Checksum over them, once sealed."""
    ext_id: int | None
    """Your own number, once sealed."""
    watermark: int | None
    """Durable records when it was sealed."""
    sealed_at_ms: int | None
    """When it was sealed."""
    flush_failure: bool | None
    """Whether a failed flush had left bytes in it."""
    warm_bytes: int | None
    """Size of its compressed copy, if there is one."""
    cold_key: str | None
    """Key of its copy in the object store, if there is one."""
    cold_etag: str | None
    """The object store's name for that content."""
    resident_bytes: int
    """Bytes that were brought back."""
    reclaimed_bytes: int
    """Bytes that were freed."""
    compression_job: int | None
    """Compression under way."""
    hydration_source: int | None
    """Tier that it is being brought back from."""
    compression_failure: int | None
    """Reason code of the last failure."""
    upload_failure: int | None
    """Reason code of the last failure."""
    hydration_failure: int | None
    """Reason code of the last failure."""

    @property
    def is_sealed(self) -> bool:
        """Whether it has its footer."""
        return self.sealed_at_ms is not None


@dataclasses.dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that was begun and not finished."""

    key: str
    """Key of the object."""
    segment_id: int
    """Segment it holds; 0 for a chunk of the manifest."""
    started_at_ms: int
    """When it was begun."""
    attempts: int
    """Times it was tried."""
    failure: int | None
    """Reason code of the last failure."""


@dataclasses.dataclass(frozen=True, slots=True)
class PendingDelete:
    """A deletion that was asked for and not done."""

    key: str
    """Key of the object."""
    segment_id: int
    """Segment it holds."""
    queued_at_ms: int
    """When it was asked for."""


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestIndex:
    """What all records add up to.

    >>> index = manifest.index()
    >>> [segment.segment_id for segment in index.segments if segment.hot]
    [0, 1]
    """

    segments: list[ManifestSegment]
    """Segments that have a copy somewhere, oldest first."""
    pending_uploads: list[PendingUpload]
    """Uploads to go on with."""
    pending_deletes: list[PendingDelete]
    """Deletions to go on with."""
    unresolved_segments: list[int]
    """Segments that records speak of and nobody opened."""
    unknown_records: int
    """Records of a type that this version does not know."""
    next_record: int
    """Ordinal of the next record."""


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestChunk:
    """One chunk file as checked."""

    chunk_index: int
    """Its number."""
    path: str
    """Its file."""
    base_record: int
    """Ordinal of its first record."""
    record_count: int
    """Records in it."""
    committed_bytes: int
    """Bytes of header and committed records."""
    is_sealed: bool
    """Whether it takes no more records."""
    is_uploaded: bool
    """Whether it is in the object store."""


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestSnapshot:
    """One snapshot that validates."""

    snapshot_id: int
    """Its number."""
    path: str
    """Its file."""
    chunk_index: int
    """Chunk that replay goes on with."""
    chunk_offset: int
    """Byte of the chunk that it goes on at."""
    segment_count: int
    """Segments in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestProblem:
    """One thing that is wrong with a manifest."""

    kind: str
    """What: "chunk", "sequence", "missing_chunk", "snapshot", ..., or how it disagrees with
    the segment files: "not_on_disk", "segment_crc64", ..."""
    severity: Literal["notice", "damage"]
    """The next writer reconciles a notice."""
    path: str
    """File or directory."""
    chunk_index: int | None
    """Chunk, where it is about one."""
    offset: int
    """Byte in the file."""
    detail: str
    """What was found, in words."""


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestReport:
    """Everything that verifying a manifest found.

    >>> report = manifest.verify()
    >>> report.is_healthy, report.problems
    (True, [])
    """

    path: str
    """Directory of the log."""
    is_healthy: bool
    """Whether nothing committed is damaged or missing, and nothing contradicts the files."""
    problems: list[ManifestProblem]
    """What is wrong."""
    chunks: list[ManifestChunk]
    """The chunks, oldest first."""
    snapshots: list[ManifestSnapshot]
    """The snapshots that validate, oldest first."""
    record_count: int
    """Intact records."""
    unknown_records: int
    """Those of a type that this version does not know."""

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Divergence:
    """One disagreement between the manifest and the segment files."""

    segment_id: int
    """The segment."""
    kind: str
    """What about it: "not_in_manifest", "not_on_disk", "segment_crc64", ..."""
    detail: str
    """Both sides, in words."""
