"""Logs whose segments are partly compressed: Spark reads them as it reads any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import aof2.spark
import pyarrow as pa
import pytest
from support import FIRST_MS, payload, progress_rows, seconds, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 4_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every other sealed segment is warm."""
    path = write_log(tmp_path_factory.mktemp("tiers") / "events", COUNT, tiers=aof2.Tiers())
    with aof2.Aof.open(path, tiers=aof2.Tiers()) as writer:
        for segment in writer.segments()[::2]:
            if segment.is_sealed:
                writer.evict(segment.segment_id)
    with aof2.open(path) as reader:
        assert {s.residency for s in reader.segments()} == {"hot", "warm"}
    return path


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_frame_has_every_record_wherever_it_is(
    spark: SparkSession, log: Path, partitions: int
) -> None:
    frame = spark.read.format("aof2").option("minPartitions", partitions).load(str(log))
    assert frame.rdd.getNumPartitions() == partitions
    rows = frame.orderBy("offset").select("offset", "record_id", "payload").collect()
    with aof2.open(log) as reader:
        wanted = [(r.offset, int(r.id), bytes(r)) for r in reader.scan()]
    assert [(row.offset, row.record_id, bytes(row.payload)) for row in rows] == wanted
    assert len(wanted) == COUNT


def test_ranges_of_offsets_and_times_reach_into_both(spark: SparkSession, log: Path) -> None:
    reader = spark.read.format("aof2")
    by_offset = reader.option("startingOffsets", 100).option("endingOffsets", 3_500).load(str(log))
    assert sorted(row.offset for row in by_offset.select("offset").collect()) == list(
        range(100, 3_500)
    )
    by_time = spark.read.format("aof2").options(
        startingTimestamp=seconds(333), endingTimestamp=seconds(2_345)
    )
    times = by_time.load(str(log)).selectExpr("unix_millis(timestamp) AS ms").collect()
    assert sorted(row.ms for row in times) == [FIRST_MS + n * 1_000 for n in range(333, 2_345)]


def test_batches_are_computed_beside_warm_data(spark: SparkSession, log: Path) -> None:
    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        size = sum(len(value) for value in batch["payload"].to_pylist())
        return pa.record_batch({"rows": [batch.num_rows], "bytes": [size]})

    frame = aof2.spark.map_batches(
        spark, log, lengths, schema="rows bigint, bytes bigint", minPartitions=3
    )
    totals = frame.groupBy().sum("rows", "bytes").first()
    assert totals is not None
    assert totals[:] == (COUNT, sum(len(payload(n)) for n in range(COUNT)))


def test_splits_of_an_rdd_read_both(spark: SparkSession, log: Path) -> None:
    splits = aof2.spark.partitions(log, minPartitions=4)
    assert len(splits) == 4
    records = spark.sparkContext.parallelize(splits, len(splits)).flatMap(aof2.spark.read_partition)
    read = sorted(records.map(lambda record: (record.offset, bytes(record))).collect())
    assert read == [(offset, payload(offset)) for offset in range(COUNT)]


def test_a_stream_of_batches_goes_through_both(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    frame = spark.readStream.format("aof2").option("startingOffsets", "earliest").load(str(log))
    query = (
        frame.select("offset")
        .writeStream.format("memory")
        .queryName("tiers")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sum(progress_rows(query)) == COUNT
    assert spark.table("tiers").distinct().count() == COUNT
