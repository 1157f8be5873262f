"""``aof2 manifest verify``: every byte of a manifest checked."""

from typing import TYPE_CHECKING

import click

from aof2.cli.errors import ExitCode
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.units import plural

if TYPE_CHECKING:
    from aof2 import ManifestProblem, ManifestReport

_COLUMNS = (
    Column("severity"),
    Column("kind"),
    Column("file"),
    Column("byte", is_number=True, leaves=1),
    Column("what"),
)


@click.command("verify", epilog=examples("aof2 manifest verify data/events"))
@log_argument
@json_option
@click.pass_context
def command(ctx: click.Context, log: str, as_json: bool) -> None:
    """Check every byte of a manifest, and that it agrees with the segment files.

    Checksums, the order of chunks and records, snapshots, and what retention must have
    left. Damage gives exit code 5. A notice is what the next writer reconciles.
    """
    from aof2 import Manifest

    report = Manifest.open(log).verify()
    out = Output(as_json=as_json)
    if as_json:
        out.object(report.to_dict())
    else:
        if report.problems:
            out.table(_COLUMNS, [_problem_row(problem) for problem in report.problems])
        out.line(_verdict(report))
    if not report.is_healthy:
        ctx.exit(ExitCode.CORRUPT)


def _problem_row(problem: "ManifestProblem") -> tuple[str, ...]:
    return (problem.severity, problem.kind, problem.path, str(problem.offset), problem.detail)


def _verdict(report: "ManifestReport") -> str:
    what = (
        f"{plural(report.record_count, 'record')} in {plural(len(report.chunks), 'chunk')}, "
        f"{plural(len(report.snapshots), 'snapshot')}"
    )
    damages = sum(problem.severity == "damage" for problem in report.problems)
    notices = len(report.problems) - damages
    noticed = f", {plural(notices, 'notice')}" if notices else ""
    if report.is_healthy:
        return f"healthy: {what}{noticed}"
    return f"damaged: {plural(damages, 'problem')}{noticed}; {what} intact"
