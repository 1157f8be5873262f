"""``aof2 manifest inspect``: the records of a manifest, or a line for each segment."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from aof2.cli.commands.manifest.records import RECORD_COLUMNS, record_object, record_row
from aof2.cli.commands.manifest.timeline import print_timeline
from aof2.cli.options import TIMESTAMP, examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.times import TIME_HELP

if TYPE_CHECKING:
    from aof2 import Manifest, ManifestRecord

#: How often a manifest is looked at for news.
_FOLLOW_SECONDS = 0.2


@click.command(
    "inspect",
    epilog=examples(
        "aof2 manifest inspect data/events",
        "aof2 manifest inspect data/events --type SealSegment --since -1h",
        "aof2 manifest inspect data/events --timeline",
        "aof2 manifest inspect data/events --follow --json | jq .details",
    ),
)
@log_argument
@click.option("--segment", type=click.IntRange(min=0), metavar="N", help="Only of this segment.")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only of this type; may be repeated."
)
@click.option("--since", type=TIMESTAMP, metavar="TIME", help=f"Not before: {TIME_HELP}.")
@click.option("--until", type=TIMESTAMP, metavar="TIME", help="Before this time.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@click.option("--timeline", is_flag=True, help="One line for each segment: what became of it.")
@json_option
def command(
    log: str,
    segment: int | None,
    types: tuple[str, ...],
    since: int | None,
    until: int | None,
    follow: bool,
    timeline: bool,
    as_json: bool,
) -> None:
    """Print the records of a manifest, or a line for each segment.

    Shows what is committed, as far back as chunks are kept.
    """
    from aof2 import Manifest
    from aof2._manifest import RECORD_TYPES

    for name in types:
        if name not in RECORD_TYPES:
            raise click.UsageError(
                f"there is no type {name!r}; there are {', '.join(RECORD_TYPES)}"
            )
    if timeline and (types or follow or since is not None or until is not None):
        raise click.UsageError("--timeline shows whole segments: it goes with --segment only")
    manifest = Manifest.open(log)
    out = Output(as_json=as_json)
    if timeline:
        print_timeline(out, manifest, segment)
        return

    def wanted(record: "ManifestRecord") -> bool:
        return (
            (segment is None or record.segment_id == segment)
            and (not types or record.type in types)
            and (since is None or record.timestamp_ms >= since)
            and (until is None or record.timestamp_ms < until)
        )

    records = filter(wanted, _records(manifest, follow=follow))
    if as_json:
        for record in records:
            out.object(record_object(record))
            if follow:
                out.bytes.flush()
    elif follow:
        out.line_of_cells(column.name for column in RECORD_COLUMNS)
        for record in records:
            out.line_of_cells(record_row(record))
            out.flush()
    else:
        out.table(RECORD_COLUMNS, [record_row(record) for record in records])


def _records(manifest: "Manifest", *, follow: bool) -> Iterator["ManifestRecord"]:
    batches = manifest.batches()
    while True:
        for batch in batches:
            yield from batch
        if not follow:
            return
        time.sleep(_FOLLOW_SECONDS)
