"""What the tiers of a log hold, and what moved between them."""

import dataclasses


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
