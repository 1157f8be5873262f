"""Segments as commands print them: as JSON, and as rows of their sizes in each tier."""

import os
from typing import TYPE_CHECKING, Any

from aof2.cli.output import Column
from aof2.cli.times import iso_ms
from aof2.cli.units import human_bytes, human_count, human_ratio

if TYPE_CHECKING:
    from aof2 import Segment

TIER_COLUMNS = (
    Column("segment", is_number=True),
    Column("tier"),
    Column("records", is_number=True, leaves=1),
    Column("used", is_number=True),
    Column("compressed", is_number=True, leaves=2),
    Column("ratio", is_number=True, leaves=4),
    Column("archived", is_number=True, leaves=3),
)


def segment_object(segment: "Segment") -> dict[str, Any]:
    """Make a JSON object of a segment."""
    return {
        "segment_id": segment.segment_id,
        "path": os.fspath(segment.path),
        "is_sealed": segment.is_sealed,
        "first_offset": segment.first_offset,
        "record_count": segment.record_count,
        "used_bytes": segment.used_bytes,
        "file_bytes": segment.file_bytes,
        "residency": segment.residency,
        "warm_bytes": segment.warm_bytes,
        "cold_bytes": segment.cold_bytes,
        "created": iso_ms(segment.created_ms),
        "created_ms": segment.created_ms,
        "last_timestamp": iso_ms(segment.last_timestamp_ms),
        "last_timestamp_ms": segment.last_timestamp_ms,
        "ext_id": segment.ext_id,
        "damage": segment.damage,
        "stream_id": f"{segment.stream_id:016x}",
    }


def tier_row(segment: "Segment") -> tuple[str, ...]:
    """Make a row of a segment's sizes."""
    warm = segment.warm_bytes
    return (
        str(segment.segment_id),
        segment.residency,
        human_count(segment.record_count),
        human_bytes(segment.used_bytes),
        "-" if warm is None else human_bytes(warm),
        "-" if warm is None else human_ratio(segment.used_bytes, warm),
        "-" if segment.cold_bytes is None else human_bytes(segment.cold_bytes),
    )
