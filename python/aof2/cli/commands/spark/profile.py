"""``aof2 spark profile``: records, bytes and rates per segment and per hour."""

from typing import TYPE_CHECKING

import click

from aof2.cli.commands.spark.failures import explained
from aof2.cli.commands.spark.job import print_report, running_job, session_options
from aof2.cli.options import examples, json_option, log_argument, range_options
from aof2.cli.output import Column, Output
from aof2.cli.times import time_text
from aof2.cli.units import human_bytes, human_count, plural

if TYPE_CHECKING:
    from aof2._types import EndLike, StartLike
    from aof2.spark.pipelines import ProfileReport
    from aof2.spark.pipelines.profile import Figures

_FIGURES = (
    Column("records", is_number=True),
    Column("payload", is_number=True),
    Column("min", is_number=True, leaves=4),
    Column("mean", is_number=True, leaves=3),
    Column("max", is_number=True, leaves=5),
    Column("rec/s", is_number=True, leaves=1),
    Column("bytes/s", is_number=True, leaves=2),
)
_SEGMENT_COLUMNS = (Column("stream"), Column("segment", is_number=True), *_FIGURES)
_HOUR_COLUMNS = (Column("hour", is_time=True), *_FIGURES)


@click.command(
    "profile",
    epilog=examples(
        "aof2 spark profile data/events",
        "aof2 spark profile data/events --from -7d --plot week.png",
        'aof2 spark profile data/events --json | jq ".hours[] | .records_per_s"',
    ),
)
@log_argument
@range_options
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help='Draw it to a PNG file; needs pip install "aof2[plot]".',
)
@session_options
@json_option
def command(
    log: str,
    start: "StartLike",
    end: "EndLike",
    plot: str | None,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Count records, bytes and rates per segment and per hour.

    LOG may be a directory of logs, or a glob. Rates of a segment are over the time
    between its first and last timestamp, those of an hour over the whole hour.
    """
    out = Output(as_json=as_json)
    if plot is not None:
        _require_matplotlib()
    with running_job(out, log, master, conf, start=start, end=end) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.profile(
            log, spark=spark, start=start, end=end, plot=plot, progress=progress
        )
    print_report(out, report, _print_profile)


def _require_matplotlib() -> None:
    with explained():
        from aof2.spark.pipelines.plot import require_matplotlib

        require_matplotlib()


def _print_profile(out: Output, report: "ProfileReport") -> None:
    if report.total is None:
        out.line("no records")
        return
    rows = [(each.stream, str(each.segment_id), *_cells(each)) for each in report.segments]
    out.table(_SEGMENT_COLUMNS, rows)
    out.table(_HOUR_COLUMNS, [(time_text(each.hour_ms), *_cells(each)) for each in report.hours])
    total = report.total
    out.line(
        f"{plural(total.record_count, 'record')}, {human_bytes(total.payload_bytes)} in "
        f"{plural(len(report.segments), 'segment')} and {plural(len(report.hours), 'hour')}"
    )
    if report.plot is not None:
        out.line(f"drawn to {report.plot}")


def _cells(figures: "Figures") -> tuple[str, ...]:
    return (
        human_count(figures.record_count),
        human_bytes(figures.payload_bytes),
        human_bytes(figures.payload_len_min),
        human_bytes(figures.payload_len_mean),
        human_bytes(figures.payload_len_max),
        "-" if figures.records_per_s is None else f"{figures.records_per_s:,.3g}",
        "-" if figures.bytes_per_s is None else human_bytes(figures.bytes_per_s),
    )
