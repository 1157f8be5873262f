"""``aof2 restore``: a log comes back from its bucket."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import ExitCode
from aof2.cli.options import examples, json_option
from aof2.cli.output import Column, Output
from aof2.cli.ranges import records_text
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2 import RestoreProgress, RestoreReport

_MISSING_COLUMNS = (Column("segment", is_number=True), Column("records"), Column("why"))


@click.command(
    "restore",
    epilog=examples(
        "aof2 restore s3://bucket/logs/events data/events",
        "aof2 restore --index-only s3://bucket/logs/events data/events",
    ),
)
@click.argument("url")
@click.argument("target")
@click.option(
    "--index-only",
    is_flag=True,
    help="Bring back only what is needed to read the segments from the bucket.",
)
@json_option
@click.pass_context
def command(ctx: click.Context, url: str, target: str, index_only: bool, as_json: bool) -> None:
    """Bring a log back from an object store.

    URL is s3://bucket/prefix/NAME, TARGET the directory to make. Every segment is
    verified before it counts. A TARGET that holds this log gets what it lacks: run it
    again after an interruption. If segments are missing or damaged in the bucket, the
    others come back and the exit code is 5.
    """
    import aof2

    out = Output(as_json=as_json)
    with out.progress("restoring") as show:

        def progress(state: "RestoreProgress") -> None:
            show(state.bytes_done, state.bytes_total)

        report = aof2.restore(url, target, download=not index_only, progress=progress)
    if as_json:
        out.object(_report_object(report))
    else:
        _print(out, report)
    if report.missing:
        ctx.exit(ExitCode.CORRUPT)


def _report_object(report: "RestoreReport") -> dict[str, Any]:
    # Hexadecimal as everywhere: many readers of JSON round numbers of 64 bits.
    return {**report.to_dict(), "stream_id": f"{report.stream_id:016x}"}


def _print(out: Output, report: "RestoreReport") -> None:
    if report.missing:
        rows = [(str(m.segment_id), records_text(*m.records), m.reason) for m in report.missing]
        out.table(_MISSING_COLUMNS, rows)
    what = f"{plural(report.records, 'record')} in {plural(report.segments, 'segment')}"
    fetched = f"{human_bytes(report.bytes)} fetched" if report.bytes else "nothing fetched"
    lost = f", {plural(len(report.missing), 'segment')} missing" if report.missing else ""
    out.line(f"restored {report.name}: {what}, {fetched}{lost}")
