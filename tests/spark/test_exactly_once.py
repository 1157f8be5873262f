"""Tasks that fail, twins, stragglers and killed drivers leave each row exactly once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from aof2.spark.commits import Txn
from aof2.spark.write.options import WriteOptions
from aof2.spark.write.publish import Publisher, PublishFailed
from aof2.spark.write.row_layout import RowLayout
from aof2.spark.write.sink import BatchWriter, PartitionWritten, StreamWriter
from sink_support import (
    assert_once,
    fail_at,
    published_logs,
    stage,
    staged_names,
    visible_rows,
)
from support import HERE, child_env

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aof2.spark.files import Files
    from pyspark.sql import SparkSession

ROWS = [b"row %d" % number for number in range(20)]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "t"


def batch_writer(target: Path, **options: Any) -> BatchWriter:
    return BatchWriter(WriteOptions(target, segment_bytes=64 << 10, **options), RowLayout(0), False)


def stream_writer(target: Path) -> StreamWriter:
    return StreamWriter(WriteOptions(target, segment_bytes=64 << 10), RowLayout(0), False)


class WriterOverFiles(BatchWriter):
    """A writer whose driver has files that fail."""

    files: Files

    def over(self, files: Files) -> WriterOverFiles:
        object.__setattr__(self, "files", files)
        return self

    def publisher(self) -> Publisher:
        return Publisher(self.options.target, files=self.files)


def write_in_tasks(spark: SparkSession, writer: Any, times: int = 1) -> list[list[Any]]:
    """Run `write` in real tasks, two partitions with half of the rows each."""
    context = spark.sparkContext
    halves = [ROWS[:10], ROWS[10:]]

    def write(partition: int, _: Any) -> Any:
        batches = [pa.record_batch({"payload": pa.array([row])}) for row in halves[partition]]
        yield partition, writer.write(iter(batches))

    runs = []
    for _ in range(times):
        found = dict(context.parallelize(range(2), 2).mapPartitionsWithIndex(write).collect())
        runs.append([found[0], found[1]])
    return runs


@pytest.mark.parametrize(
    "used",
    [
        lambda first, second: [first[0], second[1]],
        lambda first, second: [*first, *second],
        lambda first, second: [None, *second, None, first[0]],
    ],
    ids=["mixed", "both", "second"],
)
def test_of_speculative_twins_one_is_published_whichever_it_is(
    spark: SparkSession, target: Path, used: Callable[[list[Any], list[Any]], list[Any]]
) -> None:
    writer = batch_writer(target)
    first, second = write_in_tasks(spark, writer, times=2)
    writer.commit(used(first, second))
    assert_once(target, ROWS)
    assert len(published_logs(target)) == 2
    assert len(staged_names(target)) == 2, "the other twins are left to their age"


def test_two_messages_of_one_partition_publish_its_rows_once(target: Path) -> None:
    twins = [PartitionWritten(0, None, stage(target, ROWS)) for _ in range(2)]
    batch_writer(target).commit([twins[0], None, twins[1]])
    assert_once(target, ROWS)


def test_a_straggler_may_finish_after_abort(spark: SparkSession, target: Path) -> None:
    writer = batch_writer(target)
    (messages,) = write_in_tasks(spark, writer)
    writer.abort([messages[0], None])
    staged = [log.path for message in messages for log in message.logs]
    assert all(path.exists() for path in staged), "abort leaves staging alone"
    # It was the coordinator that was wrong about the failure: the rows can be committed.
    writer.commit(messages)
    assert_once(target, ROWS)
    writer.abort(messages)
    assert_once(target, ROWS)


def test_abort_after_a_failed_commit_removes_nothing_that_is_published(target: Path) -> None:
    """Whichever step of the commit failed, also one behind the point of no return."""
    for step in range(1000):
        place = target / str(step)
        Publisher(place).publish(stage(place, [b"old"]))
        messages = [PartitionWritten(0, Txn("app", 1), stage(place, ROWS))]
        (straggler,) = stage(place, [b"late"], partition=1)
        files = fail_at(step, OSError(5, "Input/output error"))
        options = WriteOptions(place, txn_app_id="app", txn_version=1)
        writer = WriterOverFiles(options, RowLayout(0), False).over(files)
        failed = False
        try:
            writer.commit(messages)
        except PublishFailed:
            failed = True
        before = visible_rows(place)
        writer.abort(messages)
        assert visible_rows(place) == before
        assert straggler.path.exists(), "somebody may still be writing"
        assert b"old" in before
        retry = batch_writer(place, txn_app_id="app", txn_version=1)
        retry.commit([PartitionWritten(0, Txn("app", 1), stage(place, ROWS))])
        assert_once(place, [b"old", *ROWS])
        if step >= len(files.steps):
            assert not failed
            return


def test_tasks_of_a_batch_that_is_known_write_nothing(spark: SparkSession, target: Path) -> None:
    writer = batch_writer(target, txn_app_id="app", txn_version=3)
    first, second = write_in_tasks(spark, writer, times=2)
    writer.commit(first)
    assert all(message.logs for message in second), "both ran before the commit"
    writer.commit(second)
    assert_once(target, ROWS)
    (third,) = write_in_tasks(spark, writer)
    assert all(message.is_replay and not message.logs for message in third)
    writer.commit(third)
    assert_once(target, ROWS)
    assert staged_names(target) == []


def test_a_task_that_trusts_a_commit_which_is_gone_fails_the_write(target: Path) -> None:
    messages = [PartitionWritten(0, Txn("app", 1), is_replay=True)]
    with pytest.raises(PublishFailed, match="files in _aof2_commits removed"):
        batch_writer(target, txn_app_id="app", txn_version=1).commit(messages)


def test_messages_of_another_batch_are_refused(target: Path) -> None:
    writer = stream_writer(target)
    message = PartitionWritten(0, Txn("query", 4), stage(target, [b"x"]))
    with pytest.raises(PublishFailed, match="batch 5 got messages of other batches"):
        writer.commit([message], 5)
    writer.commit([], 5)
    writer.commit([None], 5)
    assert_once(target, [])
    writer.commit([message, None], 4)
    writer.commit([message, None], 4)
    assert_once(target, [b"x"])


def test_a_streaming_task_that_is_told_no_batch_fails(spark: SparkSession, target: Path) -> None:
    with pytest.raises(Exception, match="cannot be recognised; use foreachBatch"):
        write_in_tasks(spark, stream_writer(target))
    assert not target.exists()


def run_program(name: str, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, HERE / "programs" / name, *map(str, arguments)],
        cwd=cwd,
        env=child_env(),
        capture_output=True,
        text=True,
        timeout=1_800,
    )


def test_a_task_that_fails_after_some_of_its_rows_is_retried(tmp_path: Path) -> None:
    run = run_program("retry_tasks.py", tmp_path, cwd=tmp_path)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    assert run.stdout.splitlines()[-1] == "failed attempts: 2"
    assert_once(tmp_path / "t", [b"%d" % number for number in range(20_000)])


def test_a_killed_driver_and_a_restart_leave_each_row_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """kill -9 of the JVM and its Python: before the sink's commit of batch 1, then behind it."""
    for moment in ("before", "behind"):
        run = run_program("killed_query.py", tmp_path, moment, cwd=tmp_path)
        assert run.returncode == -signal.SIGKILL, f"{run.stdout}\n{run.stderr}"
        published = {"before": 100, "behind": 200}[moment]
        assert_once(tmp_path / "t", [b"row %d" % number for number in range(published)])
    source = spark.readStream.format("text").option("maxFilesPerTrigger", 1)
    query = (
        source.load(str(tmp_path / "input"))
        .toDF("payload")
        .writeStream.format("aof2")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "t"))
    )
    query.awaitTermination()
    assert [progress["batchId"] for progress in query.recentProgress] == [1, 2]
    assert_once(tmp_path / "t", [b"row %d" % number for number in range(300)])


def test_a_machine_that_dies_and_a_task_that_runs_twice_at_once_leave_each_row_once(
    tmp_path: Path,
) -> None:
    """Two hosts: kill -9 of an executor in the middle of a task; then Spark's speculation."""
    run = run_program("twins.py", tmp_path, cwd=tmp_path)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    tried = json.loads(run.stdout.splitlines()[-1])
    for trouble in ("killed", "twin"):
        assert tried[trouble] > 1
        assert_once(tmp_path / trouble, [b"%d" % number for number in range(20_000)])
    left = [name for name in staged_names(tmp_path / "killed") if name.startswith("00000-0-")]
    assert left, "nobody could tidy up behind the one that was killed"
