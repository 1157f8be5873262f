"""``aof2 top``: what running writers do, seen from outside."""

import math
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

import click

from aof2.cli.errors import usage
from aof2.cli.handles import open_reader
from aof2.cli.options import LOG_PATH, examples, json_option
from aof2.cli.output import Column, Output, console, rich_table
from aof2.cli.streams import ending_with_reader
from aof2.cli.tables import MARK
from aof2.cli.times import iso_ms
from aof2.cli.units import human_bytes, human_count
from aof2.cli.watching import Look, Watched, looks

COLUMNS = (
    Column("log", is_name=True),
    Column("writer", leaves=2),
    Column("appended", is_number=True),
    Column("durable", is_number=True, leaves=3),
    Column("not durable", is_number=True, leaves=7),
    Column("records/s", is_number=True, leaves=1),
    Column("bytes/s", is_number=True, leaves=4),
    Column("segments", is_number=True, leaves=6),
    Column("used", is_number=True, leaves=5),
)


#: Lines of a table besides its rows: a title of two lines, a rule, and space around them.
_FRAME_LINES = 5


@click.command(
    "top",
    epilog=examples(
        "aof2 top data/events",
        "aof2 top data/* --interval 5",
        "aof2 top data/events --json --count 2 | tail -1 | jq .records_per_second",
    ),
)
@click.argument("logs", nargs=-1, required=True, type=LOG_PATH, metavar="LOG...")
@click.option(
    "-i",
    "--interval",
    type=click.FloatRange(min=0.01, max=86_400),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two looks.",
)
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="N", help="End after N looks.")
@json_option
def command(logs: tuple[str, ...], interval: float, count: int | None, as_json: bool) -> None:
    """Watch the rates of running writers.

    Watermarks, rates and sizes of logs that other processes write. Runs until
    interrupted, or for --count looks. Into a pipe it prints a line per look and log,
    with --json an object. The first look has no rates yet. Columns for which a terminal
    is too narrow are left out.
    """
    if math.isnan(interval):
        raise usage("--interval is not a number", "see aof2 top --help")
    out = Output(as_json=as_json)
    with ExitStack() as stack:
        watched = [Watched(stack.enter_context(open_reader(log))) for log in logs]
        if out.is_terminal and os.environ.get("TERM") != "dumb":
            _show_live(watched, interval, count)
        else:
            with ending_with_reader():
                _print_lines(out, looks(watched, interval, count))


def _print_lines(out: Output, seen: Iterator[list[Look]]) -> None:
    if not out.as_json:
        out.line_of_cells(["time", *(column.name for column in COLUMNS)])
    for look in seen:
        for log in look:
            if out.as_json:
                out.object(log.as_object())
            else:
                out.line_of_cells([iso_ms(log.time_ms) or "-", *_row(log)])
        out.flush()


def _row(look: Look) -> tuple[str, ...]:
    rate = look.records_per_second
    speed = look.bytes_per_second
    state = look.writer.state
    return (
        look.name,
        str(look.writer.pid) if look.writer.pid else state,
        human_count(look.appended),
        human_count(look.durable),
        human_count(look.appended - look.durable),
        "-" if rate is None else human_count(round(rate)),
        "-" if speed is None else human_bytes(speed),
        human_count(look.segment_count),
        human_bytes(look.used_bytes),
    )


def _show_live(watched: list[Watched], interval: float, count: int | None) -> None:
    """Draw a table that fills the screen, so that nothing of an older one is left.

    When it ends, the last one stays on the terminal.
    """
    from rich.live import Live

    terminal = console(sys.stdout)
    rows: list[tuple[str, ...]] = []

    def draw() -> None:
        shown = _rows_within(rows, terminal.height - _FRAME_LINES)
        live.update(rich_table(COLUMNS, shown, terminal.width), refresh=True)

    try:
        with (
            Live(console=terminal, screen=True, auto_refresh=False) as live,
            _drawing_anew(draw) as sleep,
        ):
            for look in looks(watched, interval, count, sleep):
                rows = [_row(log) for log in look]
                draw()
    finally:
        if rows:
            terminal.print(rich_table(COLUMNS, rows, terminal.width))


def _rows_within(rows: list[tuple[str, ...]], lines: int) -> list[tuple[str, ...]]:
    """Cut a table that is longer than the screen, with a mark."""
    if len(rows) <= lines:
        return rows
    kept = max(lines - 1, 0)
    mark = f"{MARK} {len(rows) - kept} more"
    return [*rows[:kept], (mark, *[""] * (len(COLUMNS) - 1))]


@contextmanager
def _drawing_anew(draw: Callable[[], None]) -> Iterator[Callable[[float], None]]:
    """Give a way to sleep in which a terminal that gets another size is drawn anew."""
    resized, tell = os.pipe()
    os.set_blocking(tell, False)

    def note(_number: int, _frame: FrameType | None) -> None:
        # Nothing is drawn here: this may be in the middle of drawing.
        with suppress(BlockingIOError):
            os.write(tell, b"r")

    def sleep(seconds: float) -> None:
        end = time.monotonic() + seconds
        while select.select([resized], [], [], max(0.0, end - time.monotonic()))[0]:
            os.read(resized, 4096)
            draw()

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield sleep
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(resized)
        os.close(tell)
