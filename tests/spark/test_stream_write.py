"""``writeStream.format("aof2")`` with a real session."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from sink_support import assert_once, published_logs, record_states, staged_names
from support import last_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


class Job:
    """A streaming query over text files; every file is a batch of its own."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._checkpoint = directory / "checkpoint"
        self.target = directory / "t"
        self._input = directory / "input"
        self._input.mkdir()
        self._files = 0

    def arrive(self, *lines: str) -> None:
        """Put a file where the query finds it; files are taken in the order of their times."""
        text = "".join(f"{line}\n" for line in lines)
        hidden = self._input / f".{self._files:04}.txt"
        hidden.write_text(text)
        os.utime(hidden, (1_700_000_000 + self._files,) * 2)
        hidden.rename(self._input / f"{self._files:04}.txt")
        self._files += 1

    def run(
        self,
        change: Callable[[DataFrame], DataFrame] = lambda df: df.toDF("payload"),
        mode: str = "append",
        **options: Any,
    ) -> Any:
        """Process everything that has arrived."""
        source = (
            self._spark.readStream.format("text")
            .option("maxFilesPerTrigger", 1)
            .load(str(self._input))
        )
        query = (
            change(source)
            .writeStream.format("aof2")
            .outputMode(mode)
            .option("checkpointLocation", str(self._checkpoint))
            .options(**options)
            .trigger(availableNow=True)
            .start(str(self.target))
        )
        query.awaitTermination()
        return query

    def forget_last_commit(self) -> int:
        """Leave the checkpoint as a driver does that dies right behind the sink's commit."""
        commits = self._checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink(missing_ok=True)
        return last


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


def test_batches_are_appended_and_a_restart_goes_on(job: Job) -> None:
    job.arrive("1", "2")
    job.arrive("3")
    query = job.run()
    assert_once(job.target, [b"1", b"2", b"3"])
    assert record_states(job.target) == ["done", "done"]
    newest = max((job.target / "_aof2_commits").glob("*.done"))
    assert json.loads(newest.read_text())["txn"] == {"app": query.id, "version": 1}
    job.arrive("4")
    job.run()
    assert_once(job.target, [b"1", b"2", b"3", b"4"])
    assert staged_names(job.target) == []


def test_a_batch_that_is_replayed_from_the_checkpoint_is_recognised(job: Job) -> None:
    job.arrive("1", "2")
    job.arrive("3", "4")
    job.run()
    logs = published_logs(job.target)
    assert job.forget_last_commit() == 1
    query = job.run()
    assert [p["batchId"] for p in query.recentProgress if p["numInputRows"]] == [1]
    assert published_logs(job.target) == logs
    assert_once(job.target, [b"1", b"2", b"3", b"4"])
    job.arrive("5")
    job.run()
    assert_once(job.target, [b"1", b"2", b"3", b"4", b"5"])
    assert staged_names(job.target) == []


def test_complete_mode_replaces_the_target_with_every_batch(job: Job) -> None:
    def count(df: DataFrame) -> DataFrame:
        counts = df.groupBy("value").count()
        return counts.selectExpr("concat(value, '=', count) as payload")

    job.arrive("a", "b", "a")
    job.run(count, "complete")
    assert_once(job.target, [b"a=2", b"b=1"])
    job.arrive("a")
    job.run(count, "complete")
    assert_once(job.target, [b"a=3", b"b=1"])
    job.forget_last_commit()
    job.run(count, "complete")
    assert_once(job.target, [b"a=3", b"b=1"])


def test_rows_go_to_the_log_of_their_stream(job: Job, spark: SparkSession) -> None:
    job.arrive("x1", "y1", "x2")
    job.run(lambda df: df.selectExpr("value as payload", "substr(value, 1, 1) as stream"))
    read = spark.read.format("aof2").load(str(job.target)).selectExpr("stream", "offset", "payload")
    found = {(row.stream, bytes(row.payload)) for row in read.collect()}
    assert found == {("x", b"x1"), ("x", b"x2"), ("y", b"y1")}


def test_two_queries_may_write_to_one_target(spark: SparkSession, tmp_path: Path) -> None:
    jobs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        job = Job(spark, tmp_path / name)
        job.target = tmp_path / "shared"
        job.arrive(name)
        jobs.append(job)
    for job in jobs:
        job.run()
        job.forget_last_commit()
    for job in jobs:
        job.run()
    assert_once(tmp_path / "shared", [b"one", b"two"])


def test_foreach_batch_is_recognised_by_its_options(job: Job, spark: SparkSession) -> None:
    other = job.target.with_name("other")

    def write(df: DataFrame, batch: int) -> None:
        for target in (job.target, other):
            writer = df.toDF("payload").write.format("aof2").mode("append")
            writer.option("txnAppId", "mine").option("txnVersion", batch).save(str(target))

    def run() -> None:
        source = spark.readStream.format("text").load(str(job._input))
        query = (
            source.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(job._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    job.arrive("1", "2")
    run()
    job.forget_last_commit()
    run()
    assert_once(job.target, [b"1", b"2"])
    assert_once(other, [b"1", b"2"])


def test_a_query_that_cannot_write_says_why_and_goes_on_when_it_can(job: Job) -> None:
    job.arrive("1", "", "3")
    with pytest.raises(Exception) as failed:
        job.run()
    assert "row 1: column payload is empty" in last_line(failed.value)
    assert_once(job.target, [])
    assert staged_names(job.target) == []
    job.run(lambda df: df.where("value <> ''").toDF("payload"))
    assert_once(job.target, [b"1", b"3"])


def test_wrong_options_fail_the_query(job: Job) -> None:
    job.arrive("1")
    with pytest.raises(Exception) as failed:
        job.run(ifExists="error")
    assert "ifExists is for df.write only" in last_line(failed.value)
