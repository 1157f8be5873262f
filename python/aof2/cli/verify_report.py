"""Verifying a log and what was found, for ``aof2 verify`` and ``aof2 repair``."""

from typing import TYPE_CHECKING, Any

from aof2.cli.output import Column, Output
from aof2.cli.ranges import affected_text, records_text
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2 import Problem, VerifyProgress, VerifyReport

COLUMNS = (
    Column("severity", leaves=1),
    Column("kind", leaves=2),
    Column("records"),
    Column("file"),
    Column("byte", is_number=True, leaves=3),
    Column("what"),
)


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
