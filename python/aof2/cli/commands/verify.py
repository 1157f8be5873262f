"""``aof2 verify``: every byte checked."""

import click

from aof2.cli.errors import ExitCode
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.verify_report import print_report, run_verify


@click.command(
    "verify",
    epilog=examples(
        "aof2 verify data/events",
        "aof2 verify --json data/events | jq '.problems[] | .records'",
        "aof2 verify s3://my-bucket/logs/events",
    ),
)
@log_argument
@json_option
@click.pass_context
def command(ctx: click.Context, log: str, as_json: bool) -> None:
    """Check every byte of a log.

    Checksums, order, counters and names. Takes no lock and writes nothing; while a
    writer runs, what is durable is judged. Damage is something that had been durable
    and no longer is what it was: exit code 5. A notice is what the next writer reconciles
    by itself. Of an address, s3://bucket/prefix/NAME, every object is read.
    """
    out = Output(as_json=as_json)
    report = run_verify(log, out)
    print_report(out, report)
    if not report.is_healthy:
        ctx.exit(ExitCode.CORRUPT)
