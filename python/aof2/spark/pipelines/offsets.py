"""Ranges in columns of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


def ranges_in(offsets: pa.Array) -> Iterator[tuple[int, int]]:
    """Give the ranges without a hole, in order. The offsets ascend, and there is one."""
    start, last = offsets[0].as_py(), offsets[-1].as_py()
    if last - start + 1 == len(offsets):
        yield start, last + 1
        return
    # Only where a log was damaged once are they looked at one by one.
    behind = start
    for offset in offsets.to_pylist():
        if offset != behind:
            yield start, behind
            start = offset
        behind = offset + 1
    yield start, behind
