"""Logs that other processes write, looked at again and again.

A reader sees watermarks and segments; rates are differences between two looks. The
writer is not asked and not slowed down.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aof2.cli.times import iso_ms
from aof2.cli.writer import Writer, find_writer

if TYPE_CHECKING:
    from aof2 import Reader


@dataclass(frozen=True)
class Look:
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
        """As JSON."""
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


class Watched:
    """A log and what was last seen of it."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._before: tuple[float, int, int, dict[int, int]] | None = None

    def look(self) -> Look:
        """Look at it now; rates are since the look before."""
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
        return Look(
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


def looks(
    watched: list[Watched],
    interval: float,
    count: int | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[list[Look]]:
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
        sleep(max(0.0, due - time.monotonic()))
