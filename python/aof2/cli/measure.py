"""Measuring for ``aof2 bench``: work and its bound, in turns, in one process.

A figure alone says more about the machine than about the log. So each round first does
what any log must do at least, then the log's own work on the same number of bytes, and
the ratio of the two is what is told.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aof2 import Aof

#: Copied at a time by the memory bound: more than a core's own caches hold, as in a log.
_COPY_BYTES = 16 << 20
#: Segments are faulted in ahead; a few roll over in each round, as in a long run.
_SEGMENT_BYTES = 32 << 20

_COPY = "memory copy"
_SYNC = "write + fdatasync"


@dataclass(frozen=True)
class Figure:
    """One kind of work against its bound."""

    work: str
    bound: str
    records_per_second: float
    bytes_per_second: float
    bound_bytes_per_second: float
    ratio: float
    ratio_min: float
    ratio_max: float

    def as_object(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


class Bench:
    """A log to measure, and what was measured."""

    def __init__(
        self, place: Path, payload_bytes: int, data_bytes: int, durable_count: int
    ) -> None:
        self._place = place
        self._payload = os.urandom(payload_bytes)
        self._record_count = max(1, data_bytes // payload_bytes)
        self._durable_count = durable_count
        self._source = os.urandom(_COPY_BYTES)
        self._target = bytearray(self._source)
        self._number = 0
        # work -> (bound, records, bytes, seconds of the work, seconds of the bound)
        self._prepare_bound()
        self._rounds: dict[str, list[tuple[str, int, int, float, float]]] = defaultdict(list)

    def run_round(self) -> None:
        """Every kind of work once, each right behind its bound, in a log of its own."""
        import aof2

        payload, count = self._payload, self._record_count
        # A record needs its segment's header and footer beside it.
        segment_bytes = max(_SEGMENT_BYTES, 1 << (len(payload) + 4096).bit_length())
        path = self._place / f"round-{self._number}"
        self._number += 1
        with aof2.Aof.open(path, segment_bytes=segment_bytes) as log:
            log.warm_up()
            self._measure("append", _COPY, count, self._copy, lambda: _append(log, payload, count))
            log.flush()
            self._measure(
                "append_many", _COPY, count, self._copy, lambda: _append_many(log, payload, count)
            )
            log.flush()
            self._measure(
                "durable append",
                _SYNC,
                self._durable_count,
                self._write_and_sync,
                lambda: _append_durably(log, payload, self._durable_count),
            )
            end = log.watermarks().durable
            start = end - self._durable_count - count
            self._measure("scan", _COPY, count, self._copy, lambda: _scan(log, start, count))
            if _has_pyarrow():
                self._measure(
                    "scan_arrow", _COPY, count, self._copy, lambda: _scan_arrow(log, start, count)
                )
        # At once: a bench must not fill the disk.
        shutil.rmtree(path)

    def _measure(
        self,
        work: str,
        bound: str,
        count: int,
        run_bound: Callable[[], object],
        run_work: Callable[[], object],
    ) -> None:
        bound_seconds = _seconds(run_bound)
        seconds = _seconds(run_work)
        size = count * len(self._payload)
        self._rounds[work].append((bound, count, size, seconds, bound_seconds))

    def figures(self) -> list[Figure]:
        """Medians of what was measured."""
        figures = []
        for work, rounds in self._rounds.items():
            ratios = [bound_seconds / seconds for _, _, _, seconds, bound_seconds in rounds]
            figures.append(
                Figure(
                    work=work,
                    bound=rounds[0][0],
                    records_per_second=median(n / s for _, n, _, s, _ in rounds),
                    bytes_per_second=median(size / s for _, _, size, s, _ in rounds),
                    bound_bytes_per_second=median(size / b for _, _, size, _, b in rounds),
                    ratio=median(ratios),
                    ratio_min=min(ratios),
                    ratio_max=max(ratios),
                )
            )
        return figures

    def _copy(self) -> None:
        """Copy as many bytes as the records have, between two buffers that are faulted in."""
        total = self._record_count * len(self._payload)
        source, target = memoryview(self._source), memoryview(self._target)
        for _ in range(total // _COPY_BYTES):
            target[:] = source
        rest = total % _COPY_BYTES
        target[:rest] = source[:rest]

    @property
    def _bound_file(self) -> Path:
        return self._place / "bound"

    def _prepare_bound(self) -> None:
        with self._bound_file.open("wb") as file:
            for _ in range(self._durable_count):
                file.write(self._payload)
            file.flush()
            os.fsync(file.fileno())

    def _write_and_sync(self) -> None:
        """Write the same payloads, with an fdatasync each: the least durability can cost.

        Into blocks that were written before, as a log's are.
        """
        descriptor = os.open(self._bound_file, os.O_RDWR)
        try:
            for number in range(self._durable_count):
                os.pwrite(descriptor, self._payload, number * len(self._payload))
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)


def _seconds(run: Callable[[], object]) -> float:
    start = perf_counter()
    run()
    return max(perf_counter() - start, 1e-9)


def _append(log: "Aof", payload: bytes, count: int) -> None:
    append = log.append
    for _ in range(count):
        append(payload)


def _append_many(log: "Aof", payload: bytes, count: int) -> None:
    log.append_many([payload] * count)


def _append_durably(log: "Aof", payload: bytes, count: int) -> None:
    for _ in range(count):
        log.append(payload)
        log.flush()


def _scan(log: "Aof", start: int, count: int) -> None:
    for record in log.scan(start, start + count):
        len(record)


def _scan_arrow(log: "Aof", start: int, count: int) -> None:
    pyarrow = import_module("pyarrow")
    stream = pyarrow.RecordBatchReader.from_stream(log.scan_arrow(start, start + count))
    for batch in stream:
        len(batch)


def _has_pyarrow() -> bool:
    return find_spec("pyarrow") is not None


def file_system(path: Path) -> str:
    """Kind of the file system that holds the path, ``unknown`` if the kernel is silent."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    real = path.resolve()
    kind, depth = "unknown", -1
    for mount in mounts:
        fields = mount.split()
        point = Path(fields[1].replace("\\040", " "))
        # Later mounts cover earlier ones on the same point.
        if real.is_relative_to(point) and len(point.parts) >= depth:
            kind, depth = fields[2], len(point.parts)
    return kind
