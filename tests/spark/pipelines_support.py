"""Records as plain values, and damage in chosen places."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import aof2
from support import FIRST_MS, flip_byte, payload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aof2.spark.pipelines import Progress


class Plain(NamedTuple):
    """What a copy must keep of a record."""

    timestamp_ms: int
    flags: int
    payload: bytes


def plain_records(path: Path) -> list[Plain]:
    with aof2.open(path) as log:
        return [Plain(r.timestamp_ms, r.flags, bytes(r)) for r in log.scan()]


def write_flagged(path: Path, count: int, **options: object) -> Path:
    """Records with flags, and timestamps that do not always grow, ten minutes apart."""
    with aof2.Aof.open(path, segment_bytes=64 << 10, **options) as log:  # type: ignore[arg-type]
        for offset in range(count):
            moment = FIRST_MS + (offset ^ 1) * 600_000
            log.append(payload(offset), timestamp_ms=moment, flags=offset % 4)
    return path


def place_of(path: Path, offset: int) -> tuple[Path, int]:
    """The file of a record, and the byte where it starts."""
    with aof2.open(path) as log:
        rid = log.read_offset(offset).id
        (file,) = (s.path for s in log.segments() if s.segment_id == rid.segment_index)
    return Path(file), rid.segment_offset


def damage(path: Path, offsets: Iterable[int], *, at: int = 33) -> None:
    """Flip a byte of each record, by default one of its payload."""
    for file, byte in [place_of(path, offset) for offset in offsets]:
        flip_byte(file, byte + at)


def assert_complete(told: list[Progress], *steps: str) -> None:
    """Every step was told from nothing to all, and never went back."""
    assert list(dict.fromkeys(state.step for state in told)) == list(steps)
    for step in steps:
        states = [state for state in told if state.step == step]
        done = [state.done for state in states]
        assert done == sorted(set(done))
        assert (done[0], done[-1]) == (0, states[-1].total)
        assert len({state.total for state in states}) == 1
