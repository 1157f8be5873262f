"""``aof2 repair``: gives up what is damaged, and says exactly what that is."""

import sys
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import CommandError, ExitCode, one_line, usage
from aof2.cli.handles import refuse_address
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.ranges import affected_text, records_text
from aof2.cli.units import plural
from aof2.cli.verify_report import print_report, report_object, run_verify, verdict

if TYPE_CHECKING:
    from aof2 import RepairReport, VerifyProgress, VerifyReport


@click.command(
    "repair",
    epilog=examples(
        "aof2 repair --dry-run data/events",
        "aof2 repair data/events",
        "aof2 repair --yes --json data/events | jq .lost",
    ),
)
@log_argument
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only verify: show what a repair would give up.")
@json_option
@click.pass_context
def command(ctx: click.Context, log: str, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Repair a damaged log and say what is lost.

    Verifies first. A healthy log is left as it is. The original of every file that is
    replaced stays in LOG/quarantine, intact records keep their ids and offsets. Asks
    before it changes anything; without a terminal to ask on it needs --yes.
    """
    out = Output(as_json=as_json)
    refuse_address(log)
    found = run_verify(log, out)
    if dry_run:
        print_report(out, found)
        ctx.exit(ExitCode.SUCCESS if found.is_healthy else ExitCode.CORRUPT)
    if found.is_healthy:
        _report_healthy(out, found)
        return
    if not as_json:
        print_report(out, found)
        out.flush()
    if not yes:
        _ask(log, found)
    _print_repair(out, _run(log, out))


def _ask(log: str, found: "VerifyReport") -> None:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise usage(
            "the log is damaged and there is no terminal to ask on",
            "--yes repairs without asking, --dry-run shows what would be lost",
        )
    lost = affected_text(p.records for p in found.problems if p.severity == "damage")
    question = f"Repair {one_line(log)} and give up {lost}? [y/N] "
    print(question, end="", file=sys.stderr, flush=True)
    # Not click's prompt: it cannot tell an interrupt from an end of input.
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError(ExitCode.CORRUPT, "aborted", "not repaired; nothing was changed")


def _run(log: str, out: Output) -> "RepairReport":
    import aof2

    with out.progress("repairing") as show:

        def progress(state: "VerifyProgress") -> None:
            show(state.bytes_done, state.bytes_total)

        return aof2.repair(log, progress=progress)


def _report_healthy(out: Output, found: "VerifyReport") -> None:
    if out.as_json:
        nothing: dict[str, Any] = {"lost": [], "actions": [], "quarantined": []}
        out.object({**nothing, "verify": report_object(found)})
    else:
        out.line(f"nothing to repair; {verdict(found)}")


def _print_repair(out: Output, report: "RepairReport") -> None:
    if out.as_json:
        out.object({**report.to_dict(), "verify": report_object(report.verify)})
        return
    for action in report.actions:
        out.line(str(action))
    for lost in report.lost:
        start, end = lost.records
        exactly = "" if lost.is_exact else " (which of the segment's records is uncertain)"
        out.line(f"lost {records_text(start, end)} of segment {lost.segment_id}{exactly}")
    for path in report.quarantined:
        out.line(f"original kept at {path}")
    count = sum(end - start for start, end in (lost.records for lost in report.lost))
    given_up = f"{plural(count, 'record')} lost" if count else "no record lost"
    out.line(f"repaired, {given_up}; {verdict(report.verify)}")
