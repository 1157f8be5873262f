"""The types of arguments."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

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
ForkAtLike: TypeAlias = "int | RecordId | datetime | str | None"
"""Where a log is cut: before an offset, a record or a moment, or at a snapshot; None is the end."""
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
    "shared",
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
