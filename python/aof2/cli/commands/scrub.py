"""``aof2 scrub``: every copy checked, damage healed from another copy."""

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from aof2.cli.errors import ExitCode, usage
from aof2.cli.handles import is_address, open_writer, tiers_of
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aof2 import ScrubProgress, ScrubReport

_COLUMNS = (
    Column("segment", is_number=True),
    Column("tier"),
    Column("outcome"),
    Column("where"),
    Column("what"),
)


@click.command(
    "scrub",
    epilog=examples(
        "aof2 scrub data/events",
        "aof2 scrub --no-heal --tier warm --json data/events",
        "aof2 scrub s3://my-bucket/logs/events",
    ),
)
@log_argument
@click.option(
    "--tier",
    "tiers",
    multiple=True,
    type=click.Choice(["hot", "warm", "cold"]),
    help="Check these copies only. May be given several times.",
)
@click.option("--no-heal", is_flag=True, help="Look, and change nothing.")
@click.option(
    "--bytes-per-second",
    type=click.IntRange(1, 2**64 - 1),
    metavar="N",
    help="Read no faster than this.",
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    log: str,
    tiers: tuple[str, ...],
    no_heal: bool,
    bytes_per_second: int | None,
    as_json: bool,
) -> None:
    """Check every copy of every segment and heal damage.

    Reads the files, the compressed files and the objects of the sealed segments and
    compares them with their checksums. What is damaged or gone is replaced from a copy
    that is good; the damaged file stays in LOG/quarantine. Exit code 5 if something could
    not be healed. Needs the writer lock.

    With an address, s3://bucket/prefix/NAME, the objects are checked and nothing is healed;
    nothing of the log need be here.
    """
    out = Output(as_json=as_json)
    if is_address(log):
        report = _look_at_address(out, log, tiers, bytes_per_second)
    else:
        report = _scrub(out, log, tiers, heal=not no_heal, bytes_per_second=bytes_per_second)
    _print(out, report)
    if any(finding.outcome != "healed" for finding in report.findings):
        ctx.exit(ExitCode.CORRUPT)
    if report.unreached:
        ctx.exit(ExitCode.IO)


def _scrub(
    out: Output, log: str, tiers: tuple[str, ...], *, heal: bool, bytes_per_second: int | None
) -> "ScrubReport":
    with (
        open_writer(log, tiers=tiers_of(log, None)) as writer,
        _progress(out) as progress,
    ):
        return writer.scrub(
            tiers=tiers or ("hot", "warm", "cold"),  # type: ignore[arg-type]
            heal=heal,
            bytes_per_second=bytes_per_second,
            progress=progress,
        )


def _look_at_address(
    out: Output, address: str, tiers: tuple[str, ...], bytes_per_second: int | None
) -> "ScrubReport":
    import aof2

    if tiers and "cold" not in tiers:
        raise usage(f"--tier {tiers[0]} was given with an address", "an address has cold copies")
    with _progress(out) as progress:
        return aof2.scrub(address, bytes_per_second=bytes_per_second, progress=progress)


@contextmanager
def _progress(out: Output) -> "Iterator[Callable[[ScrubProgress], None]]":
    with out.progress("scrubbing", "segments") as show:
        yield lambda state: show(state.segments, state.segments_total)


def _print(out: Output, report: "ScrubReport") -> None:
    if out.as_json:
        out.object(report.to_dict())
        return
    rows = [
        (str(f.segment_id), f.tier, f.outcome.replace("_", " "), f.place, f.problem)
        for f in report.findings
    ]
    rows += [(str(u.segment_id), u.tier, "not reached", u.place, u.error) for u in report.unreached]
    if rows:
        out.table(_COLUMNS, rows)
    verdict = "clean" if report.is_clean else "not clean"
    copies = "1 copy" if report.copies == 1 else f"{report.copies:,} copies"
    out.line(
        f"{verdict}: {copies} of "
        f"{plural(report.segments, 'segment')}, {human_bytes(report.bytes)} read"
    )
