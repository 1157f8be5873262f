"""``aof2 top``: what running writers do, seen from outside.

A reader sees watermarks and segments; rates are differences between two looks. The
writer is not asked and not slowed down.
"""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import usage
from aof2.cli.handles import Writer, find_writer, open_reader
from aof2.cli.options import LOG_PATH, examples, json_option
from aof2.cli.output import Column, Output, console, rich_table
from aof2.cli.times import iso_ms
from aof2.cli.units import human_bytes, human_count

if TYPE_CHECKING:
    from aof2 import Reader

_COLUMNS = (
    Column("log"),
    Column("writer"),
    Column("appended", is_number=True),
    Column("durable", is_number=True),
    Column("not durable", is_number=True, is_extra=True),
    Column("records/s", is_number=True),
    Column("bytes/s", is_number=True),
    Column("segments", is_number=True, is_extra=True),
    Column("used", is_number=True),
)


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
    with --json an object. The first look has no rates yet.
    """
    if math.isnan(interval):
        raise usage("--interval is not a number", "see aof2 top --help")
    out = Output(as_json=as_json)
    with ExitStack() as stack:
        watched = [_Watched(stack.enter_context(open_reader(log))) for log in logs]
        looks = _looks(watched, interval, count)
        if out.is_terminal:
            _show_live(looks)
        else:
            _print_lines(out, looks)


@dataclass(frozen=True)
class _Look:
    """One log at one moment."""

    name: str
    path: str
    time_ms: int
    writer: Writer
    appended: int
    durable: int
    segment_count: int
    used_bytes: int
    records_per_second: float | None
    durable_per_second: float | None
    bytes_per_second: float | None

    def as_object(self) -> dict[str, Any]:
        return {
            "time": iso_ms(self.time_ms),
            "time_ms": self.time_ms,
            "path": self.path,
            "name": self.name,
            "writer": {"state": self.writer.state, "pid": self.writer.pid},
            "appended_offset": self.appended,
            "durable_offset": self.durable,
            "not_durable_count": self.appended - self.durable,
            "records_per_second": self.records_per_second,
            "durable_per_second": self.durable_per_second,
            "bytes_per_second": self.bytes_per_second,
            "segment_count": self.segment_count,
            "used_bytes": self.used_bytes,
        }

    def as_row(self) -> tuple[str, ...]:
        rate = self.records_per_second
        speed = self.bytes_per_second
        state = self.writer.state
        return (
            self.name,
            str(self.writer.pid) if self.writer.pid else state,
            human_count(self.appended),
            human_count(self.durable),
            human_count(self.appended - self.durable),
            "-" if rate is None else human_count(round(rate)),
            "-" if speed is None else human_bytes(speed),
            human_count(self.segment_count),
            human_bytes(self.used_bytes),
        )


class _Watched:
    """A log and what was last seen of it."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._before: tuple[float, int, int, dict[int, int]] | None = None

    def look(self) -> _Look:
        # Durable can only be read too small this way round, never above appended.
        durable = self._reader.watermarks().durable
        appended = max(durable, self._reader.watermarks().appended)
        used = {s.segment_id: s.used_bytes for s in self._reader.segments()}
        now = time.monotonic()
        rates: tuple[float | None, float | None, float | None] = (None, None, None)
        if self._before is not None:
            then, appended_then, durable_then, used_then = self._before
            seconds = max(now - then, 1e-9)
            # By segment: retention may have removed some meanwhile.
            written = sum(max(0, n - used_then.get(i, 0)) for i, n in used.items())
            rates = (
                (appended - appended_then) / seconds,
                (durable - durable_then) / seconds,
                written / seconds,
            )
        self._before = (now, appended, durable, used)
        return _Look(
            self._reader.name,
            self._reader.path,
            time.time_ns() // 1_000_000,
            find_writer(self._reader),
            appended,
            durable,
            len(used),
            sum(used.values()),
            *rates,
        )


def _looks(watched: list[_Watched], interval: float, count: int | None) -> Iterator[list[_Look]]:
    """Look at every log, now and after each interval.

    Kept to a schedule, so that the time a look takes does not add up.
    """
    due = time.monotonic()
    number = 0
    while True:
        yield [log.look() for log in watched]
        number += 1
        if number == count:
            return
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _print_lines(out: Output, looks: Iterator[list[_Look]]) -> None:
    if not out.as_json:
        out.line_of_cells(["time", *(column.name for column in _COLUMNS)])
    for look in looks:
        for log in look:
            if out.as_json:
                out.object(log.as_object())
            else:
                out.line_of_cells([iso_ms(log.time_ms) or "-", *log.as_row()])
        out.flush()


def _show_live(looks: Iterator[list[_Look]]) -> None:
    from rich.live import Live

    with Live(console=console(sys.stdout), auto_refresh=False) as live:
        for look in looks:
            table = rich_table(_COLUMNS, [log.as_row() for log in look], live.console.width)
            live.update(table, refresh=True)
