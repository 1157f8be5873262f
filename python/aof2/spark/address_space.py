"""Reading within a limited address space.

``spark.executor.pyspark.memory`` limits the address space of a worker, and mapped files
count in full. A reader keeps the segments that it has read mapped, which costs nothing
elsewhere. Where there is a limit, a range is therefore read segment by segment, and the
reader is let go in between: at most two segments are mapped at a time, however long the
log is and however many tasks the worker has served.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aof2.spark.buckets import is_address
from aof2.spark.errors import explained
from aof2.spark.open_logs import OPEN_LOGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aof2.spark.splits import Piece


def is_limited() -> bool:
    """Whether somebody set a limit for this process."""
    try:
        import resource
    except ImportError:
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return soft != resource.RLIM_INFINITY


def fitting(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the same records in pieces that can be read within the limit.

    Ask for the next piece when the last one is read and its scan is dropped.
    """
    for piece in pieces:
        # Of a log in an object store nothing is mapped.
        if is_limited() and not is_address(piece.path):
            yield from _by_segment(piece)
        else:
            yield piece


def let_go(path: str) -> None:
    """Unmap what a reader of this process has mapped, where that counts."""
    if is_limited() and not is_address(path):
        OPEN_LOGS.let_go(path)


def _by_segment(piece: Piece) -> Iterator[Piece]:
    try:
        segments = OPEN_LOGS.reader(piece.path).segments()
    except Exception as error:
        raise explained(error) from None
    starts = [segment.first_offset for segment in segments]
    inside = [start for start in starts if piece.start < start < piece.end]
    for start, end in zip([piece.start, *inside], [*inside, piece.end], strict=True):
        yield replace(piece, start=start, end=end)
        OPEN_LOGS.let_go(piece.path)
