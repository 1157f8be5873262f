"""``spark.readStream.format("aof2")``, run by Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import aof2
import pyspark
import pytest
from slow_machines import finished, started
from support import (
    HERE,
    child_env,
    last_line,
    payload,
    progress_rows,
    segment_files,
    wait_until,
    write_log,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COLUMNS = "offset BIGINT, payload BINARY"


class Pipe:
    """A query from a log to Parquet files, which Spark writes exactly once."""

    def __init__(self, spark: SparkSession, scratch: Path, log: Path) -> None:
        self._spark = spark
        self.log = log
        self.checkpoint = scratch / "checkpoint"
        self.output = scratch / "output"

    def follow(self, **options: object) -> StreamingQuery:
        """What is there and what comes."""
        return started(lambda: self._start(False, options))

    def run(self, **options: object) -> StreamingQuery:
        """Everything that is there now."""
        return finished(lambda: self._start(True, options))

    def _start(self, available_now: bool, options: dict[str, object]) -> StreamingQuery:
        source = self._spark.readStream.format("aof2").schema(COLUMNS).options(**options)  # type: ignore[arg-type]
        writer = source.load(str(self.log)).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        return writer.start(str(self.output))

    def rows(self) -> DataFrame:
        return self._spark.read.schema(COLUMNS).parquet(str(self.output))

    def offsets(self) -> list[int]:
        return sorted(row.offset for row in self.rows().select("offset").collect())


@pytest.fixture
def pipe(spark: SparkSession, tmp_path: Path) -> Pipe:
    return Pipe(spark, tmp_path, tmp_path / "events")


def test_available_now_reads_in_limited_batches_and_goes_on_from_the_checkpoint(pipe: Pipe) -> None:
    write_log(pipe.log, 100)

    query = pipe.run(startingOffsets="earliest", maxOffsetsPerTrigger=40)

    assert progress_rows(query) == [40, 40, 20]
    assert pipe.offsets() == list(range(100))
    progress = query.lastProgress["sources"][0]
    assert progress["endOffset"] == '{"events": 100}'
    assert progress["latestOffset"] == '{"events": 100}'

    write_log(pipe.log, 50, first=100)
    query = pipe.run(startingOffsets="earliest", maxOffsetsPerTrigger=1_000)
    assert progress_rows(query) == [50]
    assert pipe.offsets() == list(range(150))
    assert {bytes(r.payload) for r in pipe.rows().where("offset = 149").collect()} == {payload(149)}
    # Nothing new: nothing is read again.
    assert progress_rows(pipe.run()) == []


def test_latest_starts_with_what_comes_after_the_query(pipe: Pipe) -> None:
    write_log(pipe.log, 30)
    query = pipe.follow()
    try:
        query.processAllAvailable()
        write_log(pipe.log, 12, first=30)
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipe.offsets() == list(range(30, 42))


@pytest.fixture
def writer(pipe: Pipe) -> Iterator[Any]:
    process = subprocess.Popen(
        [sys.executable, HERE / "programs" / "kept_writer.py", pipe.log],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_env(),
    )

    def ask(what: str) -> int:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(what + "\n")
        process.stdin.flush()
        return int(process.stdout.readline())

    yield ask
    process.communicate()
    assert process.returncode == 0


def test_a_query_follows_a_writer_in_another_process_through_rollovers_and_retention(
    pipe: Pipe, writer: Any
) -> None:
    writer("append 10")
    query = pipe.follow(startingOffsets="earliest")
    try:
        earliest = 0
        for _ in range(3):
            end = writer("append 2000")
            query.processAllAvailable()
            assert query.exception() is None
            # Everything was read, so retention may take all but the newest segment.
            earliest = writer(f"retain {end}")
        assert earliest > 2_000
        assert len(segment_files(pipe.log)) < 5
        end = writer("append 500")
        query.processAllAvailable()
    finally:
        query.stop()
    assert pipe.offsets() == list(range(end))


def test_a_killed_driver_goes_on_from_its_checkpoint(pipe: Pipe, tmp_path: Path) -> None:
    count = 1_000
    write_log(pipe.log, count)
    commits = pipe.checkpoint / "commits"
    with (tmp_path / "driver.log").open("w") as output:
        driver = subprocess.Popen(
            [
                sys.executable,
                HERE / "programs" / "streaming_driver.py",
                pipe.log,
                pipe.checkpoint,
                pipe.output,
            ],
            env=child_env(),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until(
            "two micro-batches of a driver that lives",
            lambda: (commits / "1").exists() or driver.poll() is not None,
            600,
        )
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()
    finally:
        # The JVM is a child of the driver: the whole group goes, without a word.
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    planned = len([f for f in (pipe.checkpoint / "offsets").iterdir() if f.name.isdecimal()])
    assert planned >= 2

    pipe.run(startingOffsets="latest", maxOffsetsPerTrigger=10_000)

    # Nothing is missing and nothing twice, whatever the driver was doing when it died.
    assert pipe.offsets() == list(range(count))


def test_lost_records_fail_the_query_with_a_clear_message_unless_accepted(
    spark: SparkSession, pipe: Pipe
) -> None:
    write_log(pipe.log, 100)
    pipe.run(startingOffsets="earliest")
    write_log(pipe.log, 2_900, first=100)
    with aof2.Aof.open(pipe.log, segment_bytes=64 << 10) as log:
        earliest = log.apply_retention(before_offset=2_000).earliest_offset
    assert earliest > 100

    with pytest.raises(pyspark.errors.StreamingQueryException) as raised:
        pipe.run()
    said = last_line(raised.value)
    assert f"records 100 to {earliest - 1} of stream 'events'" in said
    assert "failOnDataLoss" in said

    pipe.run(failOnDataLoss="false")
    assert pipe.offsets() == [*range(100), *range(earliest, 3_000)]


def test_a_directory_of_streams_and_one_that_appears_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    streams = tmp_path / "streams"
    write_log(streams / "a", 20)
    write_log(streams / "b", 10)
    pipe = Pipe(spark, tmp_path, streams)
    pipe.run(startingOffsets='{"a": 15, "b": {"0": -2}}')
    assert pipe.offsets() == sorted([*range(15, 20), *range(10)])

    write_log(streams / "c", 3)
    query = pipe.run()

    assert progress_rows(query) == [3]
    assert query.lastProgress["sources"][0]["endOffset"] == '{"a": 20, "b": 10, "c": 3}'
