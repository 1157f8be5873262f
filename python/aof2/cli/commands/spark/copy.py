"""``aof2 spark copy``: a log in new segments, every record compared."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.commands.spark.failures import explained
from aof2.cli.commands.spark.job import print_report, running_job, session_options
from aof2.cli.options import BYTES, examples, json_option, log_argument, range_options
from aof2.cli.output import Output
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2._types import EndLike, StartLike
    from aof2.spark.pipelines import CopyReport


@click.command(
    "copy",
    epilog=examples(
        "aof2 spark copy data/events data/events-64m --segment-bytes 64M",
        "aof2 spark copy data/events data/january --from 2026-01-01 --to 2026-02-01",
    ),
)
@log_argument
@click.argument("target", type=click.Path(), metavar="TARGET")
@range_options
@click.option(
    "--segment-bytes",
    type=BYTES,
    metavar="SIZE",
    help="Size of the copy's segments, a power of two from 64k to 2G. [default: 1 to 256 MiB, "
    "by write rate]",
)
@click.option(
    "--layout",
    type=click.Choice(["full", "compact"]),
    help="Record layout of the copy. [default: that of LOG]",
)
@session_options
@json_option
def command(
    log: str,
    target: str,
    start: "StartLike",
    end: "EndLike",
    segment_bytes: int | None,
    layout: Any,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Copy a log into new segments, and compare every record.

    Order, timestamps, flags and payloads stay; offsets count from 0. A directory of logs
    becomes a directory of copies. TARGET must not exist; it appears when everything was
    compared, or not at all.
    """
    out = Output(as_json=as_json)
    _refuse_existing(target, master)
    with running_job(out, log, master, conf, start=start, end=end) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.copy(
            log,
            target,
            spark=spark,
            segment_bytes=segment_bytes,
            format=layout,
            start=start,
            end=end,
            progress=progress,
        )
    print_report(out, report, _print_copy)


def _refuse_existing(target: str, master: str) -> None:
    if not master.startswith("sc://"):
        with explained():
            from aof2.spark.pipelines.copy.target import refuse_existing
            from aof2.spark.streams import local_path

            refuse_existing(Path(local_path(target)))


def _print_copy(out: Output, report: "CopyReport") -> None:
    segments = sum(stream.segment_count for stream in report.streams)
    out.line(
        f"copied {plural(report.record_count, 'record')} "
        f"({human_bytes(report.payload_bytes)}) to {report.target} "
        f"({plural(segments, 'segment')}), every record compared"
    )
    missing = sum(stream.missing for stream in report.streams)
    if missing:
        out.note(f"{plural(missing, 'offset')} of the range had no record to copy")
