"""Splits for RDDs: records or Arrow batches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aof2
import aof2.spark
import pytest
from support import FIRST_MS, payload, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_records_in_an_rdd(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 1_000)
    splits = aof2.spark.partitions(log, startingOffsets=100, minPartitions=4)
    assert len(splits) == 4

    records = spark.sparkContext.parallelize(splits, len(splits)).flatMap(aof2.spark.read_partition)

    read = sorted(records.map(lambda record: (record.offset, bytes(record))).collect())
    assert read == [(offset, payload(offset)) for offset in range(100, 1_000)]
    # Records themselves can be collected: they pickle with a copy of their payload.
    assert {record.offset for record in records.take(3)} == {100, 101, 102}


def test_arrow_batches_in_an_rdd(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 1_000)
    splits = aof2.spark.partitions(log, columns=["offset"], minPartitions=3)

    def sums(split: aof2.spark.Split) -> list[int]:
        batches = aof2.spark.read_partition(split, format="arrow", columns=["offset"])
        return [sum(batch.column("offset").to_pylist()) for batch in batches]

    total = spark.sparkContext.parallelize(splits, len(splits)).flatMap(sums).sum()

    assert total == sum(range(1_000))


def test_options_as_python_values(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 100)

    def count(**options: object) -> int:
        return sum(split.record_count for split in aof2.spark.partitions(log, **options))

    assert count() == 100
    assert count(endingOffsets=10, failOnDataLoss=True) == 10
    assert count(startingOffsets={"events": 90}) == 10
    moment = datetime.fromtimestamp(FIRST_MS / 1_000 + 40, UTC)
    assert count(endingTimestamp=moment) == 40
    assert len(aof2.spark.partitions([log], minPartitions=5)) == 5
    with pytest.raises(aof2.spark.InvalidOption, match="did you mean minPartitions"):
        aof2.spark.partitions(log, min_partitions=5)
    with pytest.raises(ValueError, match="records"):
        aof2.spark.read_partition(aof2.spark.partitions(log)[0], format="rows")  # type: ignore[call-overload]
