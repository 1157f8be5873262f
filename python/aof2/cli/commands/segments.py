"""``aof2 segments``: the files of a log."""

from typing import TYPE_CHECKING

import click

from aof2.cli.handles import open_reader
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.segment_rows import segment_object
from aof2.cli.times import time_text
from aof2.cli.units import human_bytes, human_count

if TYPE_CHECKING:
    from aof2 import Segment

COLUMNS = (
    Column("segment", is_number=True),
    Column("state", leaves=2),
    Column("tier", leaves=3),
    Column("first offset", is_number=True, leaves=1),
    Column("records", is_number=True),
    Column("used", is_number=True),
    Column("file", is_number=True, leaves=5),
    Column("compressed", is_number=True, leaves=7),
    Column("created", is_time=True, leaves=6),
    Column("newest record", is_time=True, leaves=4),
)


@click.command(
    "segments",
    epilog=examples(
        "aof2 segments data/events",
        "aof2 segments --json data/events | jq -r 'select(.is_sealed) | .path'",
    ),
)
@log_argument
@json_option
def command(log: str, as_json: bool) -> None:
    """List the segments of a log.

    Oldest first. --json prints one object per segment, with its path: where its file
    would be, if it is warm. Works while a writer runs.
    """
    out = Output(as_json=as_json)
    with open_reader(log) as reader:
        segments = reader.segments()
    if as_json:
        for segment in segments:
            out.object(segment_object(segment))
    else:
        out.table(COLUMNS, [_row(segment) for segment in segments])


def _row(segment: "Segment") -> tuple[str, ...]:
    state = "damaged" if segment.damage else "sealed" if segment.is_sealed else "open"
    return (
        str(segment.segment_id),
        state,
        segment.residency,
        human_count(segment.first_offset),
        human_count(segment.record_count),
        human_bytes(segment.used_bytes),
        human_bytes(segment.file_bytes) if segment.residency == "hot" else "-",
        "-" if segment.warm_bytes is None else human_bytes(segment.warm_bytes),
        time_text(segment.created_ms),
        time_text(segment.last_timestamp_ms),
    )
