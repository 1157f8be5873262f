"""``df.write.format("aof2")`` and ``writeStream``: tasks stage logs, the driver publishes.

A writer is made on the driver and travels to the tasks; `write` runs there, `commit` and
`abort` on the driver, in processes of their own. For a streaming query the writer that
commits is not even the one that was sent to the tasks. So nothing is kept in it but
options: what a task did is in its message.

Exactly once: a commit carries the application and the version that make it
recognisable, `txnAppId` and `txnVersion`, or in a streaming query the query's id and the
batch's. When a batch is replayed after a failure, its tasks write nothing if it is known
to be committed, and `Publisher` has the last word. Without them a batch write is still
all or nothing, but running a job again is another write.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from aof2.spark.commits import Txn
from aof2.spark.pickling import travelling
from aof2.spark.write.options import WriteOptions, parse_write_options
from aof2.spark.write.publish import Publisher, PublishFailed, StagedLog, refuse_log, target_exists
from aof2.spark.write.row_layout import RowLayout, row_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

_LOG = logging.getLogger("aof2.spark")

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class PartitionWritten(WriterCommitMessage):
    """What one task staged."""

    partition: int
    txn: Txn | None = None
    logs: tuple[StagedLog, ...] = ()
    #: The task wrote nothing because its rows had been committed before.
    is_replay: bool = False


@dataclass(frozen=True)
class _Writer:
    """What both kinds of writers know."""

    options: WriteOptions
    layout: RowLayout
    overwrite: bool
    #: The target has streams and shall keep them as they are.
    is_ignored: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(type(self), self.options, self.layout, self.overwrite, self.is_ignored)

    def publisher(self) -> Publisher:
        return Publisher(
            self.options.target,
            lock_timeout_s=self.options.lock_timeout_ms / 1000,
            staging_max_age_s=self.options.staging_max_age_ms / 1000,
        )

    def stage(
        self, batches: Iterator[pa.RecordBatch], task: TaskContext, txn: Txn | None
    ) -> PartitionWritten:
        """Write the rows of a task to logs of its own."""
        # Only tasks need pyarrow, and every commit is a process of its own.
        from aof2.spark.write.incoming import rows_by_stream
        from aof2.spark.write.staging import Attempt

        partition = task.partitionId()
        if self.is_ignored:
            return PartitionWritten(partition)
        if txn is not None and self.publisher().is_replay(txn):
            return PartitionWritten(partition, txn, is_replay=True)
        with Attempt(self.options, partition, task.attemptNumber()) as attempt:
            for place, rows in rows_by_stream(batches, self.layout, partition):
                attempt.append(place, rows)
            return PartitionWritten(partition, txn, attempt.finish())

    def publish(self, messages: Sequence[WriterCommitMessage | None], txn: Txn | None) -> None:
        """Publish what the tasks staged."""
        written = one_per_partition(messages)
        staged = [log for message in written for log in message.logs]
        outcome = self.publisher().publish(
            staged, txn=txn, overwrite=self.overwrite, if_exists=self.options.if_exists
        )
        if outcome == "published" and any(message.is_replay for message in written):
            raise PublishFailed(
                f"{self.options.target}: a task found its rows committed before, the driver did "
                "not; were files in _aof2_commits removed?"
            )
        _LOG.info("%s: %d logs %s", self.options.target, len(staged), outcome)

    def collect(self) -> None:
        """Collect old staging; all that may be done when a write failed.

        A straggler may still be writing its staging, and what failed last may have been
        what comes after the commit.
        """
        try:
            self.publisher().collect()
        except OSError as error:
            _LOG.warning("leftovers in %s could not be removed: %s", self.options.target, error)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """``df.write.format("aof2")``."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        """Stage one partition; runs on an executor."""
        return self.stage(iterator, _task(), self.options.txn)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish all partitions at once; runs on the driver."""
        self.publish(messages, self.options.txn)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Leave everything as it is; staging is collected by age."""
        self.collect()


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """``df.writeStream.format("aof2")``."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
        """Stage one partition of a batch; runs on an executor."""
        task = _task()
        app = self.options.txn_app_id or task.getLocalProperty(_QUERY_ID)
        batch = task.getLocalProperty(_BATCH_ID)
        if app is None or batch is None:
            raise PublishFailed(
                f"this Spark does not tell its tasks {_QUERY_ID} and {_BATCH_ID}, without which "
                "a replayed batch cannot be recognised; use foreachBatch with txnAppId and "
                "txnVersion"
            )
        return self.stage(iterator, task, Txn(app, int(batch)))

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803
    ) -> None:
        """Publish a batch, or recognise it as a replay; runs on the driver."""
        txns = {message.txn for message in one_per_partition(messages)}
        if not txns:
            return
        if len(txns) > 1 or (txn := txns.pop()) is None or txn.version != batchId:
            raise PublishFailed(
                f"{self.options.target}: batch {batchId} got messages of other batches"
            )
        self.publish(messages, txn)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],  # noqa: ARG002
        batchId: int,  # noqa: ARG002, N803
    ) -> None:
        """Leave everything as it is; staging is collected by age."""
        self.collect()


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer of ``df.write``; refuse what can be refused before tasks run."""
    parsed = parse_write_options(options, "batch", overwrite=overwrite)
    layout = row_layout(schema, parsed.on_key)
    refuse_log(parsed.target)
    writer = BatchWriter(parsed, layout, overwrite)
    if parsed.if_exists == "append" or not writer.publisher().has_streams():
        return writer
    if parsed.if_exists == "ignore":
        return BatchWriter(parsed, layout, overwrite, is_ignored=True)
    if parsed.txn is not None and writer.publisher().is_replay(parsed.txn):
        # What exists is what this job wrote when it ran before.
        return writer
    raise target_exists(parsed.target)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer of ``df.writeStream``; in complete mode every batch overwrites."""
    parsed = parse_write_options(options, "stream", overwrite=overwrite)
    refuse_log(parsed.target)
    return StreamWriter(parsed, row_layout(schema, parsed.on_key), overwrite)


def one_per_partition(
    messages: Sequence[WriterCommitMessage | None],
) -> list[PartitionWritten]:
    """Return one message per partition: a twin staged the same rows once more."""
    written: dict[int, PartitionWritten] = {}
    for message in messages:
        if isinstance(message, PartitionWritten):
            written.setdefault(message.partition, message)
    return [written[partition] for partition in sorted(written)]


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise PublishFailed("write runs in tasks of Spark only")
    return task
