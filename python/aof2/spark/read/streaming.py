"""``spark.readStream.format("aof2")``.

Offsets are ``{"events": 1200}``: per stream, the next record to read. Spark writes them
to its log before a micro-batch runs and replays exactly that range after a crash; so
whatever is answered here once must mean the same records for ever. Only durable records
are served, because Spark never asks for a range twice to see whether it still exists.

Spark runs several instances of `StreamReader`: a long-lived one on the driver that is
asked for offsets and partitions, and one per task that only reads. `initialOffset` is
asked twice, and again when the first micro-batch is replayed. ``latest`` would give a
different number each time. So it stays a word there, and the first `latestOffset` turns
it into the number that Spark writes down; the first micro-batch is empty.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from aof2.spark.errors import DataLoss
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pickling import travelling
from aof2.spark.read.limits import Patience, records_within, share_out
from aof2.spark.read.options import parse_options
from aof2.spark.read.ranges import StreamRange, after_data_loss, end_offset, offset_of, positions_of
from aof2.spark.read.schema import Columns, query_columns
from aof2.spark.read.splits import Split, SplitSize, plan, record_bytes_for, runs_of
from aof2.spark.streams import Stream, find_streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from aof2.spark.read.options import ReadOptions

#: An offset by stream, or `LATEST_WORD` before it was looked up.
Offsets = dict[str, Any]
LATEST_WORD = "latest"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query."""

    def __init__(self, options: ReadOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns
        #: How far an AvailableNow query goes.
        self._target: dict[str, int] | None = None
        self._patience: Patience | None = None
        if options.min_offsets_per_trigger is not None:
            self._patience = Patience(options.min_offsets_per_trigger, options.max_trigger_delay_ms)

    @classmethod
    def for_query(cls, options: Mapping[str, str], schema: StructType) -> StreamReader:
        """Check the options and the schema."""
        read_options = parse_options(options, "stream")
        return cls(read_options, query_columns(schema, read_options.layout))

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(type(self), self._options, self._columns)

    # ---- on the driver ----

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Where a new query starts."""
        streams = find_streams(self._options.paths)
        positions = positions_of(streams, self._options.starting, "startingOffsets")
        offsets: Offsets = {}
        for stream in streams:
            position = positions[stream.key]
            if position.kind == "latest":
                offsets[stream.key] = LATEST_WORD
            else:
                offsets[stream.key] = offset_of(stream.reader(), position)
        return offsets

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what is there now; nothing behind it is read."""
        self._target = self._ends()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tell Spark that there is a limit; which ones apply is decided here.

        Spark passes only one on, and passes "everything" where its trigger says so.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        """Where the next micro-batch ends: `start` itself if it has nothing to read."""
        ends = self._ends() if self._target is None else self._target
        begins = self._begins(start, ends)
        backlog = {key: max(ends[key] - begin, 0) for key, begin in begins.items() if key in ends}
        taken = (
            backlog if isinstance(limit, ReadAllAvailable) else self._within_limits(begins, backlog)
        )
        return {key: begin + taken.get(key, 0) for key, begin in sorted(begins.items())}

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """How far the logs are; the difference to what was read is the lag."""
        return dict(sorted(self._ends().items()))

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Cut the range of a micro-batch, the first time and when it is replayed."""
        streams = {stream.key: stream for stream in find_streams(self._options.paths)}
        ranges = []
        for key, behind in sorted(end.items()):
            wanted = self._range(streams.get(key), key, start.get(key), behind)
            if wanted is not None:
                ranges.append(wanted)
        size = SplitSize(self._options.max_bytes_per_partition, self._options.min_partitions)
        splits = plan(ranges, size, record_bytes_for(self._columns.native))
        return [InputPartition(split) for split in splits]

    def commit(self, end: Offsets) -> None:
        """Nothing to do: Spark keeps the offsets, retention does not ask for them."""

    def stop(self) -> None:
        """Let go of the logs."""
        OPEN_LOGS.clear()

    # ---- on executors ----

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split."""
        from aof2.spark.read.split_reader import HowToRead, SplitReader

        split = partition.value or Split(())
        return iter(SplitReader(split, self._columns, HowToRead.of(self._options)))

    # ---- how ----

    def _ends(self) -> dict[str, int]:
        return {s.key: end_offset(s.reader()) for s in find_streams(self._options.paths)}

    def _begins(self, start: Offsets, ends: Mapping[str, int]) -> dict[str, int]:
        """Return where each stream goes on. New streams are read from their beginning."""
        streams = {stream.key: stream for stream in find_streams(self._options.paths)}
        begins: dict[str, int] = {}
        for key in start.keys() | ends.keys():
            begin = start.get(key)
            stream = streams.get(key)
            if begin is None and stream is not None:
                begins[key] = min(stream.reader().earliest_offset(), ends[key])
            elif begin == LATEST_WORD:
                begins[key] = ends.get(key, 0)
            elif begin is not None:
                self._check_still_there(key, begin, ends.get(key))
                begins[key] = begin
        return begins

    def _check_still_there(self, key: str, begin: int, end: int | None) -> None:
        """Fail if a log vanished, or ends before what was read: it is not the checkpoint's."""
        if not self._options.fail_on_data_loss or (end is not None and end >= begin):
            return
        found = f"ends at {end}" if end is not None else "is gone"
        raise DataLoss(
            f"stream {key!r} {found}, but the query has read it up to {begin}: the log was "
            "removed or replaced. Start with a new checkpoint, or set failOnDataLoss to false",
            stream=key,
            earliest=0,
        )

    def _within_limits(
        self, begins: Mapping[str, int], backlog: Mapping[str, int]
    ) -> Mapping[str, int]:
        waiting = sum(backlog.values())
        if self._patience is not None and self._target is None:
            now_ms = time.monotonic_ns() // 1_000_000
            if not self._patience.is_over(waiting, now_ms):
                return {}
        taken = dict(backlog)
        if self._options.max_offsets_per_trigger is not None:
            taken = share_out(self._options.max_offsets_per_trigger, taken)
        if self._options.max_bytes_per_trigger is not None:
            taken = self._within_bytes(begins, taken, self._options.max_bytes_per_trigger)
        return taken

    def _within_bytes(
        self, begins: Mapping[str, int], taken: dict[str, int], limit_bytes: int
    ) -> dict[str, int]:
        streams = {stream.key: stream for stream in find_streams(self._options.paths)}
        runs = {}
        for key, count in taken.items():
            if count > 0 and key in streams:
                wanted = StreamRange(streams[key], begins[key], begins[key] + count)
                runs[key] = runs_of(wanted, streams[key].reader().segments(), open_bytes=0)
        shares = share_out(limit_bytes, {k: sum(run.bytes for run in r) for k, r in runs.items()})
        return {key: records_within(runs[key], share) for key, share in shares.items()}

    def _range(
        self, stream: Stream | None, key: str, begin: Any, behind: int
    ) -> StreamRange | None:
        if begin in (LATEST_WORD, behind):
            return None
        if stream is None:
            self._check_still_there(key, behind, None)
            return None
        if begin is None:
            begin = min(stream.reader().earliest_offset(), behind)
        wanted = StreamRange(stream, begin, max(begin, behind))
        return after_data_loss(wanted, self._options.fail_on_data_loss)
