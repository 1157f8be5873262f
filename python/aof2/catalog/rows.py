"""Rows of tables. The fields are the columns of the table, in the same order."""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - sphinx reads the annotations


@dataclasses.dataclass(frozen=True, slots=True)
class Database:
    """A log or a page store: a row of the table `db`."""

    db_id: int
    """Its number."""
    name: str
    """Its name."""
    kind: str
    """What it is: "log" or "pages"."""
    status: str
    """Its state: "active", "read_only" or "dropped"."""
    stream_id: int | None
    """Id of the log, if it has one."""
    config_hash: int
    """Checksum of its configuration."""
    origin_db: int | None
    """What it began as, if it is a fork."""
    origin_snapshot: int | None
    """The row in the snapshots of that database that holds what the fork needs."""
    origin_generation: int | None
    """Checkpoint of that database."""
    origin_offset: int | None
    """Offset of that database's log behind what the fork began with."""
    max_age_ms: int | None
    """Policy: records older than this may go."""
    max_bytes: int | None
    """Policy: the oldest records may go while there is more than this."""
    snapshots_max: int | None
    """Policy: the oldest snapshots may go while there are more than this."""
    start_offset: int
    """First offset of its log that was not trimmed."""
    generation: int
    """Its last checkpoint; 0 if it has none."""
    next_snapshot_id: int
    """The number of the next snapshot."""
    created: datetime.datetime
    """When it was registered."""


@dataclasses.dataclass(frozen=True, slots=True)
class WalState:
    """How far a write-ahead log of a page store has got: a row of `wal_state`."""

    db_id: int
    """The page store."""
    shard: int
    """Which of its logs."""
    last_sealed_chunk: int
    """The last chunk that was sealed."""
    last_sealed_lsn: int
    """Position behind it."""
    last_applied_lsn: int
    """Position up to which a checkpoint holds everything."""
    last_checkpoint_generation: int
    """That checkpoint."""


@dataclasses.dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk of a page store, or an archived segment of a log: a row of `chunk_catalog`."""

    db_id: int
    """Log or page store."""
    chunk_id: int
    """Its number."""
    variant: str
    """What it is: "base", "wal" or "segment"."""
    generation: int
    """Checkpoint with which it appeared; for a segment, which of its objects."""
    died: int | None
    """Checkpoint with which it was superseded."""
    first_page: int
    """First page that it holds."""
    page_count: int
    """Pages that it holds."""
    size_bytes: int
    """Length of its file."""
    crc64: int
    """Checksum of its file."""
    compression: str
    """How it is stored: "raw" or "zstd"."""
    residency: str
    """Where it is: "local", "local_and_remote", "remote_archived" or "evicted"."""
    lsn_start: int
    """First position of the write-ahead log that it covers."""
    lsn_end: int
    """Position behind the last."""
    remote_namespace: int | None
    """Place in a bucket where its object is."""
    remote_object: str | None
    """The object, as `ObjectName` is shown."""


@dataclasses.dataclass(frozen=True, slots=True)
class Delta:
    """A delta over a chunk: a row of `chunk_delta_index`."""

    db_id: int
    """The page store."""
    chunk_id: int
    """The chunk that it patches."""
    generation: int
    """Checkpoint that made it."""
    delta_id: int
    """Its number."""
    died: int | None
    """Checkpoint with which it was superseded."""
    dirty_pages: bytes
    """Pages that it holds."""
    size_bytes: int
    """Length of its file."""
    crc64: int
    """Checksum of its file."""
    compression: str
    """How it is stored."""
    residency: str
    """Where it is."""
    remote_namespace: int | None
    """Place in a bucket where its object is."""
    remote_object: str | None
    """The object, as `ObjectName` is shown."""


@dataclasses.dataclass(frozen=True, slots=True)
class Namespace:
    """A place in a bucket: a row of `remote_namespace`."""

    namespace_id: int
    """Its number."""
    url: str
    """Bucket and prefix."""
    encryption: str | None
    """Name of the profile by which objects are encrypted."""
    object_count: int
    """Chunks, deltas and segments that are there."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot, or a fork as its parent sees it: a row of `snapshot_index`."""

    db_id: int
    """Log or page store."""
    snapshot_id: int
    """Its number."""
    name: str
    """Its name; that of the fork, if it is one."""
    generation: int
    """Checkpoint that it holds; 0 for logs."""
    offset: int
    """Offset of the log behind what it holds."""
    created: datetime.datetime
    """When it was made."""
    expires: datetime.datetime | None
    """When it may go by itself."""
    fork_db: int | None
    """The fork that holds it."""


@dataclasses.dataclass(frozen=True, slots=True)
class WalChunk:
    """A chunk of a write-ahead log in its place: a row of `wal_manifest`."""

    db_id: int
    """The page store."""
    generation: int
    """Generation that it belongs to."""
    chunk_id: int
    """Its number."""
    shard: int
    """Which of the logs."""
    lsn_start: int
    """First position that it covers."""
    lsn_end: int
    """Position behind the last."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A job: a row of `job_queue`."""

    job_id: int
    """Its number."""
    db_id: int
    """What it is about; 0 for the whole catalog."""
    kind: str
    """What it does."""
    state: str
    """Where it is in its life: "pending", "leased", "done" or "failed"."""
    owner: str | None
    """The worker that has it."""
    leased_until: datetime.datetime | None
    """Until when."""
    heartbeats: int | None
    """How often the worker said that it still works."""
    not_before: datetime.datetime | None
    """Not to be run before this time."""
    runs: int
    """Runs so far; of a job that was leased, the number of this run."""
    failures: int
    """Runs that failed."""
    attempts_max: int
    """Failures after which it is given up."""
    created: datetime.datetime
    """When it was enqueued."""
    updated: datetime.datetime
    """When something happened to it last."""
    message: str
    """What the last run had to say."""
    payload: bytes
    """What it needs to know."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A figure: a row of `metrics`."""

    scope: int
    """What it is about."""
    metric: int
    """Which figure."""
    count: int
    """Observations."""
    sum: int
    """Their sum, as far as it goes."""
    min: int
    """The smallest."""
    max: int
    """The largest."""
    last: int
    """The last."""
    buckets: list[int]
    """Observations below 1, 4, 16, … 2**28, and at or above that."""
    updated: datetime.datetime
    """When it was observed last."""


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """How far a component or a reader of the feed has got: a row of `generation_watermarks`."""

    component_id: int
    """Its number."""
    name: str
    """Its name."""
    kind: str
    """What it is: "component", "cursor" or "expired_cursor"."""
    generation: int | None
    """A component has seen everything up to here, a cursor acknowledged everything before
    here; None for a reader that gave its place up."""
    expired_at: int | None
    """The batch with which it was expired, if it was."""
    updated: datetime.datetime
    """When it got there."""


@dataclasses.dataclass(frozen=True, slots=True)
class Intent:
    """Something that is going to be done outside the tables: a row of `intents`."""

    operation: str
    """The operation, as `OperationId` is shown."""
    operation_type: str
    """What is going to be done: "UploadToTier2", …"""
    db_id: int
    """What it is about."""
    stream_id: int | None
    """The log, if it is about one."""
    namespace_id: int
    """Where the object is, if it is about one."""
    object: str | None
    """The object, as `ObjectName` is shown."""
    key: str
    """Its key below the namespace."""
    segments: str
    """The segments, as JSON."""
    outputs: str
    """What they are replaced by, as JSON."""
    created: datetime.datetime
    """When it was decided."""


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """A step by which the tables got their version: a row of `migrations`."""

    version: int
    """The version."""
    name: str
    """What the step did."""
    generation: int
    """The batch with which it happened."""
    applied: datetime.datetime
    """When."""
