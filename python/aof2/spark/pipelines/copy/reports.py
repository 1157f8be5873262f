"""What a copy came to."""

from __future__ import annotations

from dataclasses import dataclass

import aof2
from aof2.spark.pipelines.reports import Report


class CopyFailed(aof2.Error, RuntimeError):
    """A record of the copy was not what it should be, so the copy was not kept."""


@dataclass(frozen=True)
class CopiedStream(Report):
    """One stream and its copy."""

    stream: str
    """Its key."""
    path: str
    """Directory of the copy."""
    start: int
    """First offset that was copied; the copy counts from 0."""
    end: int
    """Offset behind the last."""
    record_count: int
    """Records of the copy, each compared with its original."""
    payload_bytes: int
    """Bytes of their payloads."""
    segment_count: int
    """Segments of the copy."""
    missing: int
    """Offsets without a record: given up by a repair, or passed over as damaged."""


@dataclass(frozen=True)
class CopyReport(Report):
    """What `copy` did."""

    path: str
    """What was read."""
    target: str
    """The copy."""
    record_count: int
    """Records that were copied."""
    payload_bytes: int
    """Bytes of their payloads."""
    streams: tuple[CopiedStream, ...]
    """The streams, by key."""
