"""``map_batches``: computing beside the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import aof2.spark
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from support import payload, write_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aof2.spark.read.near_data import BatchFunction
    from pyspark.sql import SparkSession

COUNT = 1_500


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("near") / "events", COUNT)


@pytest.fixture
def lengths() -> BatchFunction:
    """A function as a notebook has it: workers cannot import this module."""

    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        total = pc.sum(pc.binary_length(batch["payload"])).as_py() or 0
        return pa.record_batch({"rows": [batch.num_rows], "bytes": [total]})

    return lengths


def test_results_of_every_batch_become_rows(
    spark: SparkSession, log: Path, lengths: BatchFunction
) -> None:
    frame = aof2.spark.map_batches(
        spark,
        log,
        lengths,
        schema="rows bigint, bytes bigint",
        columns=["payload"],
        minPartitions=3,
    )
    assert frame.rdd.getNumPartitions() == 3
    totals = frame.groupBy().sum("rows", "bytes").first()
    assert totals[:] == (COUNT, sum(len(payload(offset)) for offset in range(COUNT)))


def test_the_schema_is_found_with_an_empty_batch(
    spark: SparkSession, log: Path, lengths: BatchFunction
) -> None:
    frame = aof2.spark.map_batches(spark, log, lengths, startingOffsets=10, endingOffsets=30)
    assert frame.schema.simpleString() == "struct<rows:bigint,bytes:bigint>"
    assert frame.groupBy().sum("rows").first()[0] == 20


def test_batches_arrive_with_all_columns_and_may_leave_as_several(
    spark: SparkSession, log: Path
) -> None:
    def odd(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        wanted = batch.filter(pc.equal(pc.bit_wise_and(batch["offset"], 1), 1))
        yield wanted.select(["offset", "stream"]).slice(0, 5)
        yield wanted.select(["offset", "stream"]).slice(5)

    # Other order and narrower types than the function's are made to fit.
    frame = aof2.spark.map_batches(spark, log, odd, schema="stream string, offset int")
    rows = frame.orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(1, COUNT, 2))
    assert {row.stream for row in rows} == {"events"}


def test_an_empty_range_gives_no_rows(
    spark: SparkSession, log: Path, lengths: BatchFunction
) -> None:
    frame = aof2.spark.map_batches(spark, log, lengths, startingOffsets=COUNT)
    assert frame.collect() == []


def test_errors_name_the_column_or_ask_for_a_schema(
    spark: SparkSession, log: Path, lengths: BatchFunction
) -> None:
    def fails_on_empty(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"first": [batch["offset"][0].as_py()]})

    with pytest.raises(ValueError, match="Pass schema="):
        aof2.spark.map_batches(spark, log, fails_on_empty)
    with pytest.raises(aof2.spark.InvalidSchema, match="'length'"):
        aof2.spark.map_batches(spark, log, lengths, columns=["length"])
    with pytest.raises(aof2.NotALog, match="does not exist"):
        aof2.spark.map_batches(spark, log / "nowhere", lengths)
    missing = aof2.spark.map_batches(spark, log, lengths, schema="rows bigint, words bigint")
    with pytest.raises(pyspark.errors.PythonException, match="the schema names 'words'"):
        missing.collect()

    def no_batch(batch: pa.RecordBatch) -> list[int]:
        return [batch.num_rows]

    with pytest.raises(pyspark.errors.PythonException, match="returned int"):
        aof2.spark.map_batches(spark, log, no_batch, schema="rows bigint").collect()  # type: ignore[arg-type]
