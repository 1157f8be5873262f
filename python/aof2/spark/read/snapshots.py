"""Where a snapshot of a log is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aof2.spark.errors import InvalidOption, listed

if TYPE_CHECKING:
    import aof2


def snapshot_offset(log: aof2.Reader, name: str) -> int:
    """Find the offset behind the last record before a snapshot."""
    from aof2 import Root, _aof2

    if _aof2.is_address(log.path):
        raise InvalidOption(
            f"option snapshot: {log.path} is in an object store, where there are no snapshots "
            f"of logs yet; endingOffsets reads up to an offset",
            option="snapshot",
        )
    known = {taken.name: taken.offset for taken in Root(Path(log.path).parent).snapshots(log)}
    if name not in known:
        there = f"there is {listed(sorted(known)[:20])}" if known else "it has none"
        raise InvalidOption(
            f"option snapshot: the log {log.path} has no snapshot {name!r}; {there}",
            option="snapshot",
        )
    return known[name]
