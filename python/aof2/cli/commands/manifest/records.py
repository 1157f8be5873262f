"""Records of a manifest as rows and as JSON."""

from typing import TYPE_CHECKING, Any

from aof2.cli.output import Column
from aof2.cli.times import iso_ms, time_text

if TYPE_CHECKING:
    from aof2 import ManifestRecord

RECORD_COLUMNS = (
    Column("record", is_number=True, leaves=3),
    Column("time", is_time=True, leaves=1),
    Column("segment", is_number=True),
    Column("type"),
    Column("offset", is_number=True, leaves=2),
    Column("details"),
)


def record_row(record: "ManifestRecord") -> tuple[str, ...]:
    """Make a row of a record."""
    return (
        str(record.ordinal),
        time_text(record.timestamp_ms),
        str(record.segment_id),
        record.type,
        str(record.logical_offset),
        " ".join(f"{name}={_value_text(name, v)}" for name, v in record.details.items()),
    )


def _value_text(name: str, value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex() or '""'
    return f"{value:016x}" if name.endswith("crc64") else str(value)


def record_object(record: "ManifestRecord") -> dict[str, Any]:
    """Make a JSON object of a record."""
    details = {
        name: value.hex() if isinstance(value, bytes) else exact(name, value)
        for name, value in record.details.items()
    }
    return {
        "ordinal": record.ordinal,
        "chunk_index": record.chunk_index,
        "chunk_offset": record.chunk_offset,
        "type": record.type,
        "record_type": record.record_type,
        "flags": record.flags,
        "segment_id": record.segment_id,
        "logical_offset": record.logical_offset,
        "timestamp": iso_ms(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
        "details": details,
    }


def exact(name: str, value: Any) -> Any:
    """Return a value as JSON has it: many readers of JSON round numbers of 64 bits."""
    return f"{value:016x}" if name.endswith("crc64") and value is not None else value
