"""``aof2 info``: what a log holds and how it is."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.handles import open_reader
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.times import iso_ms, time_text
from aof2.cli.units import human_bytes, human_count, human_ms, plural
from aof2.cli.writer import find_writer

if TYPE_CHECKING:
    from aof2 import Reader, Segment


@click.command(
    "info",
    epilog=examples(
        "aof2 info data/events",
        "aof2 info --json data/events | jq .durable_offset",
    ),
)
@log_argument
@json_option
def command(log: str, as_json: bool) -> None:
    """Show what a log holds and how it is.

    Records, bytes, time range, the durable point, who writes it, and what is known of
    its health without reading it all: aof2 verify reads every byte. Works while a
    writer runs.
    """
    out = Output(as_json=as_json)
    with open_reader(log) as reader:
        facts = _facts(reader)
    if as_json:
        out.object(facts)
    else:
        out.fields(_rows(facts))


def _facts(reader: "Reader") -> dict[str, Any]:
    segments = reader.segments()
    marks = reader.watermarks()
    earliest = reader.earliest_offset()
    first_ms, last_ms = _time_range(reader, segments, earliest, marks.durable)
    writer = find_writer(reader)
    damaged = [s for s in segments if s.damage is not None]
    return {
        "path": reader.path,
        "name": reader.name,
        "stream_id": f"{reader.stream_id:016x}",
        "layout": reader.format,
        "segment_count": len(segments),
        "sealed_count": sum(s.is_sealed for s in segments),
        "record_count": sum(s.record_count for s in segments),
        "used_bytes": sum(s.used_bytes for s in segments),
        "file_bytes": sum(s.file_bytes for s in segments if s.residency == "hot"),
        "hot_count": sum(s.residency == "hot" for s in segments),
        "warm_count": sum(s.residency == "warm" for s in segments),
        "warm_bytes": sum(s.warm_bytes or 0 for s in segments),
        "earliest_offset": earliest,
        "durable_offset": marks.durable,
        "appended_offset": marks.appended,
        "first_timestamp": iso_ms(first_ms),
        "first_timestamp_ms": first_ms,
        "last_timestamp": iso_ms(last_ms),
        "last_timestamp_ms": last_ms,
        "writer": {"state": writer.state, "pid": writer.pid, "text": writer.describe()},
        "health": "damaged" if damaged else "no damage known",
        "damage": [
            {"segment_id": s.segment_id, "path": s.path, "damage": s.damage} for s in damaged
        ],
    }


def _time_range(
    reader: "Reader", segments: "list[Segment]", earliest: int, end: int
) -> tuple[int | None, int | None]:
    """Return the first record's timestamp and the largest there is.

    From the footers, and from the newest record for the segment that has none yet.
    """
    first = _timestamp(reader, earliest) if earliest < end else None
    last = [s.last_timestamp_ms for s in segments if s.last_timestamp_ms is not None]
    newest = _timestamp(reader, end - 1) if earliest < end else None
    if newest is not None:
        last.append(newest)
    return first, max(last, default=None)


def _timestamp(reader: "Reader", offset: int) -> int | None:
    """None where the record cannot be read: info describes a damaged log, too."""
    from aof2 import Corrupt, PastEnd, Trimmed

    try:
        return reader.read_offset(offset).timestamp_ms
    except (Corrupt, PastEnd, Trimmed):
        return None


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    unsealed = facts["segment_count"] - facts["sealed_count"]
    earliest, durable = facts["earliest_offset"], facts["durable_offset"]
    waiting = facts["appended_offset"] - durable
    point = f"offset {human_count(durable)}"
    point += f", {plural(waiting, 'record')} appended behind it" if waiting > 0 else ""
    rows = [
        ("path", facts["path"]),
        ("name", f"{facts['name']} (stream {facts['stream_id']}, {facts['layout']} layout)"),
        ("segments", f"{human_count(facts['segment_count'])} ({human_count(unsealed)} unsealed)"),
        ("records", human_count(facts["record_count"])),
        (
            "bytes",
            f"{human_bytes(facts['used_bytes'])} used, files of {human_bytes(facts['file_bytes'])}",
        ),
        *_tiers_rows(facts),
        (
            "offsets",
            f"{human_count(earliest)} to {human_count(durable - 1)}"
            if durable > earliest
            else "none",
        ),
        ("times", _time_text(facts["first_timestamp_ms"], facts["last_timestamp_ms"])),
        ("durable", point),
        ("writer", facts["writer"]["text"]),
        ("health", _health_text(facts)),
    ]
    return rows + [("damage", f"segment {d['segment_id']}: {d['damage']}") for d in facts["damage"]]


def _tiers_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Nothing for a log that never compressed a segment."""
    if facts["warm_bytes"] == 0:
        return []
    hot, warm = human_count(facts["hot_count"]), human_count(facts["warm_count"])
    compressed = human_bytes(facts["warm_bytes"])
    return [("tiers", f"{hot} hot, {warm} warm; compressed files of {compressed}")]


def _time_text(first_ms: int | None, last_ms: int | None) -> str:
    if last_ms is None:
        return "none"
    if first_ms is None or first_ms > last_ms:
        return f"up to {time_text(last_ms)}"
    span = human_ms(last_ms - first_ms)
    return f"{time_text(first_ms)} to {time_text(last_ms)} ({span})"


def _health_text(facts: dict[str, Any]) -> str:
    if facts["damage"]:
        return f"{plural(len(facts['damage']), 'damaged segment')}; see aof2 verify"
    return "no damage known; aof2 verify reads every byte"
