"""``spark.read.format("aof2")``: the rows are the records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import aof2
import aof2.spark
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as everywhere
from support import FIRST_MS, payload, seconds, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

COUNT = 2_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("batch") / "events", COUNT)


def load(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return spark.read.format("aof2").options(**options).load(str(path))  # type: ignore[arg-type]


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_rows_are_the_records_with_every_column(spark: SparkSession, log: Path) -> None:
    frame = load(spark, log, minPartitions=3)

    assert frame.schema.simpleString() == (
        "struct<stream:string,segment_id:bigint,offset:bigint,record_id:bigint,"
        "timestamp:timestamp,flags:int,payload:binary>"
    )
    rows = frame.orderBy("offset").collect()
    with aof2.open(log) as reader:
        records = list(reader.scan())
    assert len(rows) == len(records) == COUNT
    first = datetime.fromtimestamp(FIRST_MS / 1_000, UTC).replace(tzinfo=None)
    for row, record in zip(rows, records, strict=True):
        assert row.stream == "events"
        assert (row.segment_id, row.record_id) == (record.id.segment_index, int(record.id))
        assert (row.offset, row.flags, bytes(row.payload)) == (record.offset, 0, bytes(record))
    # Collected moments are in the local zone of this process, as Spark does it.
    moments = load(spark, log, startingOffsets=5, endingOffsets=6).select(
        F.date_format("timestamp", "yyyy-MM-dd HH:mm:ss")
    )
    assert moments.first()[0] == str(first + timedelta(seconds=5))


def test_a_schema_that_names_some_columns_reads_only_those(spark: SparkSession, log: Path) -> None:
    def with_schema(ddl: str) -> DataFrame:
        return spark.read.format("aof2").schema(ddl).load(str(log))

    assert with_schema("offset BIGINT").count() == COUNT
    only = with_schema("payload BINARY, offset BIGINT NOT NULL")
    assert only.columns == ["payload", "offset"]
    assert {bytes(row.payload) for row in only.where("offset = 1234").collect()} == {payload(1234)}
    every = with_schema(
        "flags INT, timestamp TIMESTAMP, record_id BIGINT, segment_id BIGINT, stream STRING"
    )
    assert every.agg(F.countDistinct("record_id"), F.max("stream")).first()[:] == (COUNT, "events")


def test_ranges_by_offset_and_by_time(spark: SparkSession, log: Path) -> None:
    by_offset = load(spark, log, startingOffsets=700, endingOffsets="800")
    assert offsets(by_offset) == list(range(700, 800))
    by_time = load(spark, log, startingTimestamp=seconds(700), endingTimestamp=seconds(800))
    assert offsets(by_time) == list(range(700, 800))
    assert load(spark, log, startingOffsets=COUNT).count() == 0


def test_splits_inside_segments_feed_several_tasks(spark: SparkSession, log: Path) -> None:
    assert load(spark, log, minPartitions=5).rdd.getNumPartitions() == 5
    assert load(spark, log, maxBytesPerPartition="64k").rdd.getNumPartitions() > 3
    assert load(spark, log).rdd.getNumPartitions() == 1
    # Small batches: many per split.
    assert offsets(load(spark, log, batchBytes="1k", minPartitions=2)) == list(range(COUNT))


def test_one_frame_scanned_twice_with_different_filters_keeps_them_apart(
    spark: SparkSession, log: Path
) -> None:
    # With filters pushed down, Spark 4.3 gives both scans the filter of one of them.
    frame = load(spark, log)
    early, late = frame.where("offset < 10"), frame.where("offset >= 1990")

    assert offsets(early.union(late)) == [*range(10), *range(1_990, COUNT)]
    joined = early.alias("e").join(late.alias("l"), F.expr("l.offset = e.offset + 1990"))
    assert joined.count() == 10
    assert early.count() == 10


def test_directories_globs_and_several_paths(spark: SparkSession, tmp_path: Path) -> None:
    for name, count in (("clicks", 30), ("orders", 20), ("eu/orders", 10)):
        write_log(tmp_path / name, count)

    def counts(frame: DataFrame) -> dict[str, int]:
        return {row.stream: row["count"] for row in frame.groupBy("stream").count().collect()}

    # Both logs named "orders" are there.
    assert counts(load(spark, tmp_path)) == {"clicks": 30, "orders": 30}
    assert counts(load(spark, tmp_path / "*" / "orders")) == {"orders": 10}
    several = spark.read.format("aof2").load([str(tmp_path / "clicks"), str(tmp_path / "orders")])
    assert counts(several) == {"clicks": 30, "orders": 20}
    some = load(spark, tmp_path, startingOffsets='{"clicks": 25, "eu/orders": {"0": 9}}')
    assert some.groupBy("stream").count().count() == 2
    assert some.count() == 5 + 20 + 1


def test_an_empty_log_and_an_empty_range_have_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    aof2.Aof.open(tmp_path / "new").close()
    frame = load(spark, tmp_path / "new")
    assert frame.count() == 0
    assert frame.collect() == []


def test_a_log_that_is_being_written_shows_what_is_durable(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "live"
    with aof2.Aof.open(path, flush_interval_ms=600_000, flush_bytes=1 << 30) as log:
        log.append_many([b"durable"] * 5)
        log.flush()
        log.append_many([b"not yet"] * 3)
        assert load(spark, path).count() == 5
        assert load(spark, path, visibility="appended").count() == 8
        log.flush()
        assert load(spark, path).count() == 8


def test_a_frame_keeps_the_range_it_was_first_run_with(spark: SparkSession, tmp_path: Path) -> None:
    path = write_log(tmp_path / "events", 5)
    frame = load(spark, path)
    assert frame.count() == 5

    write_log(path, 5, first=5)

    # Spark plans a frame once; so all it is made into agrees.
    assert frame.where("offset >= 0").count() == 5
    assert load(spark, path).count() == 10


def test_sql_finds_the_source_too(spark: SparkSession, log: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW some_events USING aof2 "
        f"OPTIONS (path '{log}', startingOffsets '10', endingOffsets '20')"
    )
    assert spark.sql("SELECT sum(offset) FROM some_events").first()[0] == sum(range(10, 20))


def test_a_registered_class_works_as_the_one_that_was_found(spark: SparkSession, log: Path) -> None:
    spark.dataSource.register(aof2.spark.AofDataSource)
    assert load(spark, log).count() == COUNT
