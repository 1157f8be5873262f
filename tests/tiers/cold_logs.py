"""Logs with a cold tier: what the tests of this folder write, wait for and read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import aof2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEGMENT = 1 << 16
PATIENCE = 120


def payload(n: int) -> bytes:
    return b"record %06d " % n + b"and some words that come again and again " * (n % 40)


def records(first: int, end: int) -> list[bytes]:
    return [payload(n) for n in range(first, end)]


def contents(log: aof2.Aof | aof2.Reader) -> list[bytes]:
    return [bytes(record) for record in log.scan()]


def open_log(path: Path, bucket: str, *, recover: bool = False, **options: object) -> aof2.Aof:
    options = {"retry_ms": 20, "retry_ms_max": 200} | options
    tiers = aof2.Tiers(cold=f"s3://{bucket}/logs", **options)  # type: ignore[arg-type]
    return aof2.Aof.open(
        path, tiers=tiers, segment_bytes=SEGMENT, preallocate_segments=0, recover=recover
    )


def archive(log: aof2.Aof) -> None:
    log.seal()
    end = log.watermarks().appended
    assert log.wait("archived", end, timeout=PATIENCE), log.tiers()


def eventually(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
