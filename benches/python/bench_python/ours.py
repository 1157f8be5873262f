"""aof2 through its Python package."""

from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from time import perf_counter

import aof2
import pyarrow as pa

from bench_python.work import Work

ABOUT = (
    "one prepared segment, background flush off in the page-cache rows; "
    "a checksum over every record, verified by every scan"
)


def new_log(root: Path, work: Work) -> aof2.Aof:
    log = aof2.Aof.open(
        root,
        segment_bytes=work.segment_bytes(),
        preallocate_segments=0,
        flush_interval_ms=0,
        flush_bytes=1 << 40,
        max_unflushed_bytes=1 << 40,
    )
    log.warm_up()
    return log


def timed(step: Callable[[], object]) -> float:
    start = perf_counter()
    step()
    return perf_counter() - start


def append(root: Path, work: Work) -> float:
    with new_log(root, work) as log:
        call, payload = log.append, work.payload()

        def loop() -> None:
            for _ in repeat(None, work.record_count):
                call(payload)

        return timed(loop)


def append_many(root: Path, work: Work) -> float:
    with new_log(root, work) as log:
        payloads = [work.payload()] * work.record_count
        return timed(lambda: log.append_many(payloads))


def append_arrow(root: Path, work: Work) -> float:
    with new_log(root, work) as log:
        column = pa.array([work.payload()] * work.record_count, pa.large_binary())
        return timed(lambda: log.append_arrow(column))


def append_durable(root: Path, work: Work) -> float:
    with new_log(root, work) as log:
        payload = work.payload()

        def loop() -> None:
            for _ in range(work.record_count):
                log.flush(log.append(payload))

        return timed(loop)


def fill(root: Path, work: Work) -> None:
    """Write the log that `scan` and `scan_arrow` read."""
    with new_log(root, work) as log:
        log.append_many([work.payload()] * work.record_count)
        log.flush()


def scan_arrow(root: Path, work: Work) -> float:
    with aof2.open(root) as reader:
        rows = 0
        start = perf_counter()
        stream = pa.RecordBatchReader.from_stream(reader.scan_arrow(columns=["payload"]))
        for batch in stream:
            rows += batch.num_rows
        seconds = perf_counter() - start
    expect(rows, work.record_count)
    return seconds


def scan(root: Path, work: Work) -> float:
    with aof2.open(root) as reader:
        total = 0
        start = perf_counter()
        for record in reader.scan():
            total += len(record)
        seconds = perf_counter() - start
    expect(total, work.payload_bytes)
    return seconds


def expect(found: int, wanted: int) -> None:
    if found != wanted:
        raise RuntimeError(f"{wanted} were written, {found} came back")
