"""A line for each segment of a manifest: what became of it."""

from typing import TYPE_CHECKING

from aof2.cli.commands.manifest.records import exact
from aof2.cli.output import Column, Output
from aof2.cli.times import time_text
from aof2.cli.units import human_bytes

if TYPE_CHECKING:
    from aof2 import Manifest, ManifestSegment

_COLUMNS = (
    Column("segment", is_number=True),
    Column("opened", is_time=True, leaves=4),
    Column("sealed", is_time=True, leaves=2),
    Column("last change", is_time=True, leaves=3),
    Column("bytes", is_number=True, leaves=1),
    Column("where"),
    Column("failures"),
)


def print_timeline(out: Output, manifest: "Manifest", segment: int | None) -> None:
    """Print all segments, or one."""
    from dataclasses import asdict

    segments = [s for s in manifest.segments() if segment is None or s.segment_id == segment]
    if out.as_json:
        for known in segments:
            out.object({name: exact(name, value) for name, value in asdict(known).items()})
        return
    out.table(_COLUMNS, [_row(known) for known in segments])


def _row(known: "ManifestSegment") -> tuple[str, ...]:
    places = {
        "hot": known.hot,
        "warm": known.warm_bytes is not None,
        "cold": known.cold_key is not None,
    }
    codes = {
        "compression": known.compression_failure,
        "upload": known.upload_failure,
        "hydration": known.hydration_failure,
    }
    failures = [f"{what} (reason {code})" for what, code in codes.items() if code is not None]
    failures += ["flush"] if known.flush_failure else []
    return (
        str(known.segment_id),
        time_text(known.opened_at_ms),
        time_text(known.sealed_at_ms),
        time_text(known.updated_at_ms),
        "-" if known.durable_bytes is None else human_bytes(known.durable_bytes),
        " ".join(name for name, is_there in places.items() if is_there) or "-",
        ", ".join(failures) or "-",
    )
