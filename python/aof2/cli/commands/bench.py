"""``aof2 bench``: a quick figure for this machine, beside the bound it has."""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.options import BYTES, examples, json_option
from aof2.cli.output import Column, Output
from aof2.cli.units import human_bytes, human_count

if TYPE_CHECKING:
    from aof2.cli.measure import Figure

_COLUMNS = (
    Column("work"),
    Column("records/s", is_number=True, leaves=1),
    Column("bytes/s", is_number=True),
    Column("bound"),
    Column("bound bytes/s", is_number=True, leaves=2),
    Column("of bound", is_number=True),
    Column("from - to", is_number=True, leaves=3),
)


@click.command(
    "bench",
    epilog=examples(
        "aof2 bench /var/lib/events",
        "aof2 bench --payload-bytes 100 --rounds 10",
        "aof2 bench --json | jq '.figures[] | {work, ratio}'",
    ),
)
@click.argument("directory", type=click.Path(), default=".", metavar="[DIRECTORY]")
@click.option(
    "--payload-bytes",
    type=BYTES,
    default="1k",
    show_default=True,
    metavar="SIZE",
    help="Bytes of a record.",
)
@click.option(
    "--data-bytes",
    type=BYTES,
    default="64M",
    show_default=True,
    metavar="SIZE",
    help="Bytes appended and scanned in a round.",
)
@click.option(
    "--durable-count",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Durable appends in a round.",
)
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Rounds to run.",
)
@json_option
def command(
    directory: str,
    payload_bytes: int,
    data_bytes: int,
    durable_count: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Measure this machine against its own bounds.

    Appends, durable appends and scans from Python, in a log under DIRECTORY that is
    removed afterwards. In each round the bound runs first: the same bytes copied in
    memory, or written and synced (fdatasync) one by one. Medians are shown, with the
    slowest and the fastest round as parts of the bound. Nothing is durable on a memory
    file system: measure on the disk that you will use.
    """
    from aof2.cli.errors import usage
    from aof2.cli.measure import Bench, file_system

    if not 1 <= payload_bytes <= data_bytes:
        raise usage("--payload-bytes must be from 1 to --data-bytes")
    out = Output(as_json=as_json)
    with tempfile.TemporaryDirectory(prefix="aof2-bench-", dir=directory) as place:
        kind = file_system(Path(place))
        bench = Bench(Path(place), payload_bytes, data_bytes, durable_count)
        for number in range(rounds):
            _show_round(out, f"round {number + 1} of {rounds}")
            bench.run_round()
        _show_round(out, "")
        figures = bench.figures()
    _print(out, figures, directory, kind, payload_bytes, rounds)


def _show_round(out: Output, text: str) -> None:
    """Say on a terminal how far it is; a live progress bar would take time from the work."""
    if sys.stderr.isatty() and not out.as_json:
        print(f"\r{text:<20}\r", end="", file=sys.stderr, flush=True)


def _print(
    out: Output,
    figures: "list[Figure]",
    directory: str,
    kind: str,
    payload_bytes: int,
    rounds: int,
) -> None:
    if out.as_json:
        facts: dict[str, Any] = {
            "directory": directory,
            "file_system": kind,
            "payload_bytes": payload_bytes,
            "rounds": rounds,
            "figures": [figure.as_object() for figure in figures],
        }
        out.object(facts)
        return
    out.table(_COLUMNS, [_row(figure) for figure in figures])
    out.line(
        f"payloads of {human_bytes(payload_bytes)} on {kind}, medians of {rounds} rounds; "
        "the last column: slowest and fastest round"
    )


def _row(figure: "Figure") -> tuple[str, ...]:
    return (
        figure.work,
        human_count(round(figure.records_per_second)),
        human_bytes(figure.bytes_per_second),
        figure.bound,
        human_bytes(figure.bound_bytes_per_second),
        f"{figure.ratio:.2f}",
        f"{figure.ratio_min:.2f} - {figure.ratio_max:.2f}",
    )
