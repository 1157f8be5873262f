"""``aof2 spark export``: a range to Parquet."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.commands.spark.job import print_report, running_job, session_options
from aof2.cli.options import examples, json_option, log_argument, range_options
from aof2.cli.output import Output
from aof2.cli.units import plural

if TYPE_CHECKING:
    from aof2._types import EndLike, StartLike
    from aof2.spark.pipelines import ExportReport


@click.command(
    "export",
    epilog=examples(
        "aof2 spark export data/events events.parquet",
        "aof2 spark export data/events day.parquet --from 2026-01-31 --to 2026-02-01",
        "aof2 spark export data/events ids.parquet --columns offset,timestamp --mode overwrite",
    ),
)
@log_argument
@click.argument("target", type=click.Path(), metavar="TARGET")
@range_options
@click.option(
    "--columns",
    metavar="NAMES",
    help="Columns, separated by commas: stream, segment_id, offset, record_id, timestamp, "
    "flags, payload. [default: all]",
)
@click.option(
    "--mode",
    type=click.Choice(["error", "overwrite", "append"]),
    default="error",
    show_default=True,
    help="What to do if TARGET exists.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
    help="Compression of the files.",
)
@session_options
@json_option
def command(
    log: str,
    target: str,
    start: "StartLike",
    end: "EndLike",
    columns: str | None,
    mode: Any,
    compression: Any,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a range of a log to Parquet files below TARGET.

    LOG may be a directory of logs, or a glob. Files in the order of their names hold the
    records in order. TARGET is complete, or nothing of this export is in it.
    """
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    out = Output(as_json=as_json)
    wanted = {"start": start, "end": end, "columns": names}
    with running_job(out, log, master, conf, **wanted) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.export(
            log,
            target,
            spark=spark,
            start=start,
            end=end,
            mode=mode,
            columns=names,
            compression=compression,
            progress=progress,
        )
    print_report(out, report, _print_export)


def _print_export(out: Output, report: "ExportReport") -> None:
    out.line(
        f"exported {plural(report.record_count, 'record')} to {report.target} "
        f"({plural(report.file_count, 'file')})"
    )
    if report.missing:
        out.note(f"{plural(report.missing, 'offset')} of the range had no record to export")
