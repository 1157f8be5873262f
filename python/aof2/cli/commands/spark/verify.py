"""``aof2 spark verify``: every record checked, in parallel."""

from typing import TYPE_CHECKING

import click

from aof2.cli.commands.spark.job import print_report, running_job, session_options
from aof2.cli.errors import ExitCode
from aof2.cli.options import BYTES, examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.ranges import records_text
from aof2.cli.units import plural

if TYPE_CHECKING:
    from aof2.spark.pipelines import VerifyReport

_DAMAGE_COLUMNS = (
    Column("stream"),
    Column("records"),
    Column("file"),
    Column("byte", is_number=True, leaves=1),
    Column("what"),
)


@click.command(
    "verify",
    epilog=examples(
        "aof2 spark verify data/events",
        'aof2 spark verify "data/*" --json | jq ".damages[] | .path, .byte"',
    ),
)
@log_argument
@click.option(
    "--split-bytes",
    type=BYTES,
    metavar="SIZE",
    help="How much one task reads. [default: 128 MiB, less if processors would idle]",
)
@session_options
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    log: str,
    split_bytes: int | None,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read every record of a log and check it, in parallel.

    LOG may be a directory of logs, or a glob. Says which records cannot be read, and in
    which file and byte the damage starts: exit code 5. aof2 verify checks more than the
    records, on one machine.
    """
    out = Output(as_json=as_json)
    options = {} if split_bytes is None else {"maxBytesPerPartition": split_bytes}
    with running_job(out, log, master, conf) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.verify(log, spark=spark, progress=progress, **options)
    print_report(out, report, _print_verify)
    if not report.is_healthy:
        ctx.exit(ExitCode.CORRUPT)


def _print_verify(out: Output, report: "VerifyReport") -> None:
    if report.damages:
        rows = [
            (
                damage.stream,
                records_text(damage.start, damage.end),
                damage.path.rsplit("/", 1)[-1],
                str(damage.byte),
                damage.detail,
            )
            for damage in report.damages
        ]
        out.table(_DAMAGE_COLUMNS, rows)
    for stream in report.streams:
        for start, end in stream.gaps:
            out.line(
                f"given up by an earlier repair: {records_text(start, end)} of {stream.stream}"
            )
    where = (
        f"{plural(report.record_count, 'record')} of {plural(len(report.streams), 'log')} "
        f"in {plural(report.split_count, 'split')}"
    )
    if report.is_healthy:
        out.line(f"healthy: {where}")
        return
    lost = sum(damage.end - damage.start for damage in report.damages)
    out.line(
        f"damaged: {plural(lost, 'record')} unreadable, in "
        f"{plural(report.damaged_split_count, 'split')}; {where} intact"
    )
