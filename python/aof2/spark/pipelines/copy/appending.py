"""Copying one stream, in a task."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
from aof2.spark.errors import InvalidOption
from aof2.spark.files import Files
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pipelines.copy.batches import batches_of
from aof2.spark.pipelines.offsets import ranges_in

if TYPE_CHECKING:
    import pyarrow as pa

    from aof2._types import Format
    from aof2.spark.read.options import ReadOptions
    from aof2.spark.read.splits import Piece


@dataclass(frozen=True)
class CopyJob:
    """One stream to copy, and where to."""

    piece: Piece
    attempts: str
    segment_bytes: int | None
    format: Format | None
    options: ReadOptions


@dataclass(frozen=True)
class Stretch:
    """Records without a gap between them, and where the first one of the copy is."""

    start: int
    end: int
    copy_start: int


@dataclass(frozen=True)
class Staged:
    """What a task copied: a closed and durable log."""

    piece: Piece
    path: str
    record_count: int
    payload_bytes: int
    segment_count: int
    stretches: tuple[Stretch, ...]


def copy_stream(job: CopyJob) -> Staged:
    """Copy a stream into a log of this attempt's own."""
    source = OPEN_LOGS.reader(job.piece.path)
    name, layout = source.name, job.format or source.format
    # It would keep mapped what is read through it.
    del source
    # An attempt of its own, so that a retry and a twin never meet.
    path = Path(job.attempts) / uuid.uuid4().hex
    settings: dict[str, Any] = {"name": name, "format": layout, "flush_interval_ms": 0}
    if job.segment_bytes is not None:
        settings["segment_bytes"] = job.segment_bytes
    try:
        with (
            aof2.AofManager(worker_threads=1) as manager,
            manager.open(path, **settings) as log,
        ):
            return _append_all(job, layout, log)
    except BaseException:
        Files().remove_tree(path)
        raise


def _append_all(job: CopyJob, layout: Format, log: aof2.Aof) -> Staged:
    import pyarrow.compute as pc

    count = payload_bytes = 0
    stretches: list[Stretch] = []
    for batch in batches_of(job.piece, job.options):
        if layout == "compact":
            _refuse_flags(job.piece, batch)
        log.append_arrow(
            batch, column="payload", timestamp_column="timestamp", flags_column="flags"
        )
        for start, end in ranges_in(batch["offset"]):
            _extend(stretches, Stretch(start, end, count))
            count += end - start
        payload_bytes += pc.sum(pc.binary_length(batch["payload"])).as_py()
    if count:
        # Sealed: nothing is left to scan for who opens it.
        log.seal()
    log.flush()
    segments = [segment for segment in log.segments() if segment.record_count]
    return Staged(job.piece, log.path, count, payload_bytes, len(segments), tuple(stretches))


def _extend(stretches: list[Stretch], more: Stretch) -> None:
    if stretches and stretches[-1].end == more.start:
        stretches[-1] = replace(stretches[-1], end=more.end)
    else:
        stretches.append(more)


def _refuse_flags(piece: Piece, batch: pa.RecordBatch) -> None:
    import pyarrow.compute as pc

    flagged = batch.filter(pc.not_equal(batch["flags"], 0))
    if flagged.num_rows:
        raise InvalidOption(
            f"record {flagged['offset'][0].as_py()} of stream {piece.stream!r} has flags "
            f"{flagged['flags'][0].as_py()}, and the compact layout keeps none; "
            'copy it with format="full"',
            option="format",
        )
