"""What verifying found."""

from __future__ import annotations

from dataclasses import dataclass

from aof2.spark.pipelines.reports import Report


@dataclass(frozen=True)
class Damage(Report):
    """Consecutive records that cannot be read."""

    stream: str
    """Key of the stream."""
    start: int
    """Offset of the first."""
    end: int
    """Offset behind the last."""
    path: str
    """File that is damaged or missing."""
    byte: int
    """Byte of the file where the first damage of it starts."""
    detail: str
    """What was found, in words."""


@dataclass(frozen=True)
class VerifiedStream(Report):
    """One stream as `verify` found it."""

    stream: str
    """Its key."""
    path: str
    """Its directory."""
    start: int
    """First offset that was checked."""
    end: int
    """Offset behind the last: what was durable when the check began."""
    appended: int
    """Offset behind the last record there was; from `end` on nothing was judged."""
    record_count: int
    """Intact records."""
    gaps: tuple[tuple[int, int], ...]
    """Ranges that earlier repairs gave up."""
    trimmed: int
    """Offsets that retention removed while the check ran."""


@dataclass(frozen=True)
class VerifyReport(Report):
    """What `verify` found."""

    path: str
    """What was read."""
    is_healthy: bool
    """Whether every record that had been durable is intact."""
    record_count: int
    """Intact records."""
    split_count: int
    """Splits that were read."""
    damaged_split_count: int
    """Splits with damage."""
    damages: tuple[Damage, ...]
    """What is damaged, in the order of the records."""
    streams: tuple[VerifiedStream, ...]
    """The streams, by key."""
