"""The queries, for every way to run them. Each returns one number, to be checked."""

from __future__ import annotations

import os
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any

import aof2
import aof2.spark
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from dataset import FIRST_MS, Dataset
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SUM = "sum(length(payload))"
#: Rows per batch of the bound. More make no difference.
READY_MADE_ROWS = 64 << 10
#: Parquet is told its columns, as the log is: finding them out is a job of its own.
COLUMNS = (
    "stream STRING, segment_id BIGINT, offset BIGINT, record_id BIGINT, timestamp TIMESTAMP, "
    "flags INT, payload BINARY"
)


def prepare(spark: SparkSession, dataset: Dataset) -> None:
    """Copy the log to Parquet, twice."""
    frame = spark.read.format("aof2").load(dataset.log)
    for path, codec in ((dataset.parquet, "uncompressed"), (dataset.parquet_zstd, "zstd")):
        frame.write.option("compression", codec).parquet(path)
    spark.dataSource.register(TupleSource)
    spark.dataSource.register(ReadyMadeSource)


def expected(dataset: Dataset, query: str) -> int:
    """What every way must answer."""
    start, end = dataset.one_percent
    counts = {"count": dataset.row_count, "count_offsets": dataset.row_count}
    sums = {
        "sum": dataset.row_count,
        "sum_all": dataset.row_count,
        "offset_range": end - start,
        "time_range": end - start,
    }
    return counts[query] if query in counts else sums[query] * dataset.payload_bytes


def build(spark: SparkSession, dataset: Dataset, way: str, query: str) -> Callable[[], int]:
    """Load a frame and return the query over it.

    Spark plans a frame of a Python source when it first runs, and keeps the plan. So the
    first run is timed together with the loading, and a second one by itself.
    """
    if way.startswith("map_batches"):
        return _near_data(spark, dataset, query)
    frame = _frame(spark, dataset, way, query)
    if query == "count":
        return frame.count
    return _only(frame.selectExpr("count(offset)" if query == "count_offsets" else SUM))


def _frame(spark: SparkSession, dataset: Dataset, way: str, query: str) -> DataFrame:
    if way.startswith("parquet"):
        return _parquet(spark, dataset, way, query)
    if way == "tuples":
        return spark.read.format("bench_tuples").load(dataset.log)
    if way == "ready_made":
        return spark.read.format("bench_ready_made").load(str(dataset.row_count))
    source = spark.read.format("aof2")
    start, end = dataset.one_percent
    if query == "offset_range":
        source = source.options(startingOffsets=start, endingOffsets=end)
    if query == "time_range":
        source = source.options(startingTimestamp=FIRST_MS + start, endingTimestamp=FIRST_MS + end)
    if query == "count_offsets":
        source = source.schema("offset BIGINT")
    elif query not in ("count", "sum_all"):
        source = source.schema("payload BINARY")
    return source.load(dataset.log)


def _parquet(spark: SparkSession, dataset: Dataset, way: str, query: str) -> DataFrame:
    path = dataset.parquet if way == "parquet" else dataset.parquet_zstd
    frame = spark.read.schema(COLUMNS).parquet(path)
    start, end = dataset.one_percent
    if query == "offset_range":
        return frame.where(f"offset >= {start} AND offset < {end}")
    if query == "time_range":
        return frame.where(
            f"timestamp >= timestamp_millis({FIRST_MS + start}) "
            f"AND timestamp < timestamp_millis({FIRST_MS + end})"
        )
    return frame


def _near_data(spark: SparkSession, dataset: Dataset, query: str) -> Callable[[], int]:
    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        total = pc.sum(pc.binary_length(batch["payload"])).as_py() or 0
        return pa.record_batch({"n": [total]})

    def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"n": [batch.num_rows]})

    fn, column = (lengths, "payload") if query == "sum" else (rows, "offset")

    frame = aof2.spark.map_batches(spark, dataset.log, fn, schema="n bigint", columns=[column])
    return _only(frame.selectExpr("sum(n)"))


def _only(frame: DataFrame) -> Callable[[], int]:
    def run() -> int:
        row = frame.first()
        assert row is not None
        return int(row[0])

    return run


class TupleSource(DataSource):
    """What a source looks like that gives Spark a Python tuple per record."""

    @classmethod
    def name(cls) -> str:
        return "bench_tuples"

    def schema(self) -> str:
        return "payload BINARY"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's name
        return TupleReader(self.options["path"])


class TupleReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(split) for split in aof2.spark.partitions(self.path)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        for record in aof2.spark.read_partition(partition.value):
            yield (bytes(record),)


class ReadyMadeSource(DataSource):
    """What no source of Spark's Python API can beat: it reads nothing and gives Spark the
    same Arrow batch of numbers again and again, in one task per processor.
    """

    @classmethod
    def name(cls) -> str:
        return "bench_ready_made"

    def schema(self) -> str:
        return "offset BIGINT"

    def reader(self, schema: Any) -> DataSourceReader:  # noqa: ARG002 - Spark's name
        return ReadyMadeReader(int(self.options["path"]))


class ReadyMadeReader(DataSourceReader):
    def __init__(self, row_count: int) -> None:
        self.row_count = row_count

    def partitions(self) -> list[InputPartition]:
        count = os.cpu_count() or 1
        cuts = [self.row_count * at // count for at in range(count + 1)]
        return [InputPartition(end - start) for start, end in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        batch = pa.record_batch({"offset": pa.array(np.arange(READY_MADE_ROWS))})
        whole, rest = divmod(partition.value, READY_MADE_ROWS)
        yield from repeat(batch, whole)
        if rest:
            yield batch.slice(0, rest)
