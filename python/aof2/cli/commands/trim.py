"""``aof2 trim``: old segments go."""

import dataclasses
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import usage
from aof2.cli.handles import open_reader, open_writer, refuse_address
from aof2.cli.options import AGE, BYTES, START, examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.retention import Limits, choose
from aof2.cli.segment_rows import segment_object
from aof2.cli.times import time_text
from aof2.cli.units import human_bytes, human_count, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aof2 import KeptSegment, Reader, Segment
    from aof2._types import StartLike

_COLUMNS = (
    Column("segment", is_number=True),
    Column("first offset", is_number=True, leaves=1),
    Column("records", is_number=True),
    Column("used", is_number=True, leaves=2),
    Column("newest record", is_time=True, leaves=3),
)


@click.command(
    "trim",
    epilog=examples(
        "aof2 trim data/events --older-than 30d --dry-run",
        "aof2 trim data/events --keep-bytes 10G --archive",
        "aof2 trim data/events --before 1200000",
    ),
)
@log_argument
@click.option(
    "--before",
    type=START,
    metavar="POSITION",
    help="Segments that end before this offset, record id or time.",
)
@click.option(
    "--older-than", type=AGE, metavar="AGE", help="Segments whose newest record is older: 7d, 12h."
)
@click.option(
    "--keep-bytes", type=BYTES, metavar="SIZE", help="Oldest segments while more than this is used."
)
@click.option("--archive", is_flag=True, help="Move them to LOG/archive instead of deleting.")
@click.option("--dry-run", is_flag=True, help="Show what would go and change nothing.")
@json_option
def command(
    log: str,
    before: "StartLike | None",
    older_than: int | None,
    keep_bytes: int | None,
    archive: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete or archive old segments.

    Whole sealed segments go, oldest first, if any of the limits says so; records keep
    their offsets. The newest segment, unsealed ones and damaged ones always stay: aof2
    seal closes the active one. Needs the writer lock, --dry-run does not. A running
    writer trims by itself if it was opened with retention limits.
    """
    if before is None and older_than is None and keep_bytes is None:
        raise usage("no limit was given", "say --before, --older-than or --keep-bytes")
    if older_than == 0:
        raise usage("--older-than must be at least 1ms")
    out = Output(as_json=as_json)
    refuse_address(log)
    with open_reader(log) as reader:
        limits = Limits(_offset_of(reader, before), older_than, keep_bytes)
        segments = reader.segments()
        earliest = reader.earliest_offset()
        durable = reader.watermarks().durable
    if dry_run:
        would_go, kept = choose(segments, durable, limits)
        # The newest segment never goes, so there is one behind those that do.
        earliest = segments[len(would_go)].first_offset if would_go else earliest
        _print(out, would_go, kept, earliest, archive=archive, dry_run=True)
        return
    with open_writer(log) as writer:
        report = writer.apply_retention(
            max_age_ms=limits.max_age_ms,
            max_bytes=limits.max_bytes,
            before_offset=limits.before_offset,
            action="archive" if archive else "delete",
        )
    gone, earliest = report.segments, report.earliest_offset
    _print(out, gone, report.kept, earliest, archive=archive, dry_run=False)


def _offset_of(reader: "Reader", position: "StartLike | None") -> int | None:
    """Retention goes by offsets; a time is the first record at or after it."""
    match position:
        case None:
            return None
        case "earliest":
            return reader.earliest_offset()
        case "latest":
            return reader.watermarks().durable
        case int():
            return position
        case datetime():
            return reader.offset_at(position)
    return reader.read(position).offset


def _print(
    out: Output,
    segments: "Iterable[Segment]",
    kept: "KeptSegment | None",
    earliest: int,
    *,
    archive: bool,
    dry_run: bool,
) -> None:
    segments = list(segments)
    records = sum(segment.record_count for segment in segments)
    used = sum(segment.used_bytes for segment in segments)
    if out.as_json:
        facts: dict[str, Any] = {
            "dry_run": dry_run,
            "action": "archive" if archive else "delete",
            "segments": [segment_object(segment) for segment in segments],
            "record_count": records,
            "used_bytes": used,
            "earliest_offset": earliest,
            "kept": dataclasses.asdict(kept) if kept else None,
        }
        out.object(facts)
        return
    if segments:
        out.table(_COLUMNS, [_row(segment) for segment in segments])
    done = "archived" if archive else "deleted"
    done = f"would be {done}" if dry_run else done
    out.line(
        f"{plural(len(segments), 'segment')} {done}: {plural(records, 'record')}, "
        f"{human_bytes(used)}; the log begins at offset {human_count(earliest)}"
    )
    if kept and kept.reason == "future_timestamp":
        # Nothing behind it goes by its age either, and nothing else would say so.
        out.line(
            f"segment {kept.segment_id} stays: its newest timestamp, "
            f"{time_text(kept.last_timestamp_ms)}, lies in the future"
        )


def _row(segment: "Segment") -> tuple[str, ...]:
    return (
        str(segment.segment_id),
        human_count(segment.first_offset),
        human_count(segment.record_count),
        human_bytes(segment.used_bytes),
        time_text(segment.last_timestamp_ms),
    )
