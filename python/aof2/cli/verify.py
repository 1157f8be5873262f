"""``aof2 verify``: every byte checked."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import ExitCode
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aof2 import Problem, VerifyProgress, VerifyReport

COLUMNS = (
    Column("severity", leaves=1),
    Column("kind", leaves=2),
    Column("records"),
    Column("file"),
    Column("byte", is_number=True, leaves=3),
    Column("what"),
)


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
    and no longer is what it was: exit code 5. A notice is what the next writer settles
    by itself. Of an address, s3://bucket/prefix/NAME, every object is read.
    """
    out = Output(as_json=as_json)
    report = run_verify(log, out)
    print_report(out, report)
    if not report.is_healthy:
        ctx.exit(ExitCode.CORRUPT)


def run_verify(log: str, out: Output) -> "VerifyReport":
    """Verify with a progress bar."""
    import aof2

    with out.progress("verifying") as show:

        def progress(state: "VerifyProgress") -> None:
            show(state.bytes_done, state.bytes_total)

        return aof2.verify(log, progress=progress)


def print_report(out: Output, report: "VerifyReport") -> None:
    """Print what verifying found."""
    if out.as_json:
        out.object(report_object(report))
        return
    if report.problems:
        out.table(COLUMNS, [_problem_row(problem) for problem in report.problems])
    for start, end in report.gaps:
        out.line(f"given up by an earlier repair: {records_text(start, end)}")
    out.line(verdict(report))


def report_object(report: "VerifyReport") -> dict[str, Any]:
    """Make a JSON object of a report."""
    # Hexadecimal as everywhere: many readers of JSON round numbers of 64 bits.
    return {**report.to_dict(), "stream_id": f"{report.stream_id:016x}"}


def verdict(report: "VerifyReport") -> str:
    """One line: healthy or not."""
    where = f"{plural(report.record_count, 'record')} in {plural(len(report.segments), 'segment')}"
    damages = [p for p in report.problems if p.severity == "damage"]
    notices = len(report.problems) - len(damages)
    noticed = f", {plural(notices, 'notice')}" if notices else ""
    if not damages:
        return f"healthy: {where}, {human_bytes(report.bytes)}{noticed}"
    lost = affected_text(p.records for p in damages)
    return f"damaged: {plural(len(damages), 'problem')}{noticed}, {lost} unreadable; {where} intact"


def affected_text(ranges: "Iterable[tuple[int, int | None]]") -> str:
    """Name the records of some ranges; where they overlap, they count once."""
    merged: list[tuple[int, int | None]] = []
    for start, end in sorted(
        (r for r in ranges if r[1] is None or r[0] < r[1]), key=lambda r: r[0]
    ):
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            previous = merged.pop()
            ends = (previous[1], end)
            merged.append((previous[0], None if None in ends else max(e for e in ends if e)))
        else:
            merged.append((start, end))
    if not merged:
        return "no record"
    shown = ", ".join(records_text(start, end) for start, end in merged)
    known = [(start, end) for start, end in merged if end is not None]
    if len(known) < len(merged):
        return shown
    count = sum(end - start for start, end in known)
    return shown if count == 1 else f"{plural(count, 'record')} ({shown})"


def records_text(start: int, end: int | None) -> str:
    """Name a range of records; its end is unknown where nothing readable follows."""
    if end is None:
        return f"records {start} and on"
    if end - start == 1:
        return f"record {start}"
    return f"records {start} to {end - 1}"


def _problem_row(problem: "Problem") -> tuple[str, ...]:
    start, end = problem.records
    affected = "-" if end is not None and end <= start else records_text(start, end)
    return (
        problem.severity,
        problem.kind,
        affected,
        _file_name(problem.path),
        str(problem.offset),
        problem.detail,
    )


def _file_name(path: Any) -> str:
    """Files of a log have long, telling names; the directory is the one asked for."""
    return str(path).rstrip("/").rsplit("/", 1)[-1]
