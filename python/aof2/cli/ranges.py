"""Ranges of records, in words."""

from typing import TYPE_CHECKING

from aof2.cli.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable


def records_text(start: int, end: int | None) -> str:
    """Name a range of records; its end is unknown where nothing readable follows."""
    if end is None:
        return f"records {start} and on"
    if end - start == 1:
        return f"record {start}"
    return f"records {start} to {end - 1}"


def affected_text(ranges: "Iterable[tuple[int, int | None]]") -> str:
    """Name the records of some ranges; where they overlap, they count once."""
    merged: list[tuple[int, int | None]] = []
    for start, end in sorted(
        (r for r in ranges if r[1] is None or r[0] < r[1]), key=lambda r: r[0]
    ):
        if merged and (merged[-1][1] is None or start <= merged[-1][1]):
            previous = merged.pop()
            ends = (previous[1], end)
            merged.append((previous[0], None if None in ends else max(e for e in ends if e)))
        else:
            merged.append((start, end))
    if not merged:
        return "no record"
    shown = ", ".join(records_text(start, end) for start, end in merged)
    known = [(start, end) for start, end in merged if end is not None]
    if len(known) < len(merged):
        return shown
    count = sum(end - start for start, end in known)
    return shown if count == 1 else f"{plural(count, 'record')} ({shown})"
