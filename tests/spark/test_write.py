"""``df.write.format("aof2")`` with a real session."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import pytest
from sink_support import assert_once, published_logs, staged_names, visible_rows
from support import last_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "t"


def numbers(spark: SparkSession, start: int, end: int, partitions: int = 2) -> DataFrame:
    return spark.range(start, end, 1, partitions).selectExpr("cast(id as string) as payload")


def texts(start: int, end: int) -> list[bytes]:
    return [str(number).encode() for number in range(start, end)]


def save(df: DataFrame, target: Path, mode: str = "append", **options: Any) -> None:
    df.write.format("aof2").mode(mode).options(**options).save(str(target))


def failure(df: DataFrame, target: Path, mode: str = "append", **options: Any) -> str:
    with pytest.raises(Exception) as failed:
        save(df, target, mode, **options)
    return last_line(failed.value)


def test_append_and_overwrite_give_what_was_written(spark: SparkSession, target: Path) -> None:
    save(numbers(spark, 0, 1000), target)
    assert_once(target, texts(0, 1000))
    assert len(published_logs(target)) == 2
    save(numbers(spark, 1000, 1500, 3), target)
    assert_once(target, texts(0, 1500))
    assert len(published_logs(target)) == 5
    save(numbers(spark, 0, 10, 1), target, "overwrite")
    assert_once(target, texts(0, 10))
    assert staged_names(target) == []
    read = spark.read.format("aof2").load(str(target))
    assert sorted(bytes(row.payload) for row in read.collect()) == sorted(texts(0, 10))


def test_rows_of_a_partition_keep_their_order(spark: SparkSession, target: Path) -> None:
    save(numbers(spark, 0, 30_000, 1), target)
    (path,) = published_logs(target)
    with aof2.open(path) as log:
        assert [bytes(record) for record in log.scan()] == texts(0, 30_000)
        assert log.name == path.name


def test_all_columns_arrive_in_any_time_zone(spark: SparkSession, target: Path) -> None:
    moments = [datetime(2026, 7, 1, 12, 0, 0, 123_000, UTC), datetime(1970, 1, 1, tzinfo=UTC)]
    rows = [(b"\x00\xff", "odd/../name", moments[0], 1), (b"b", "two", moments[1], 0)]
    ddl = "payload binary, stream string, timestamp timestamp, flags smallint"
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        save(spark.createDataFrame(rows, ddl).coalesce(1), target)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    found = []
    for path in published_logs(target):
        with aof2.open(path) as log:
            found += [(bytes(r), log.name, r.timestamp, r.flags) for r in log.scan()]
    assert sorted(found) == sorted(rows)
    read = spark.read.format("aof2").load(str(target)).select("stream", "offset", "payload")
    assert {(row.stream, row.offset) for row in read.collect()} == {("odd/../name", 0), ("two", 0)}


def test_kafka_rows_are_written_without_their_keys(spark: SparkSession, target: Path) -> None:
    rows = spark.createDataFrame([(None, b"1"), (b"k", b"2")], "key binary, value binary")
    assert "column key is not null" in failure(rows, target)
    save(rows.where("key is null"), target)
    save(rows.where("key is not null"), target, onKey="drop")
    assert_once(target, [b"1", b"2"])


def test_format_and_segment_size_are_those_of_the_options(
    spark: SparkSession, target: Path
) -> None:
    df = spark.range(300).coalesce(1).selectExpr("repeat('x', 1000) as payload")
    save(df, target, segmentBytes="64k", format="compact", flushBytes="32k")
    (path,) = published_logs(target)
    with aof2.open(path) as log:
        assert log.format == "compact"
        assert len(log.segments()) > 4
        assert {segment.file_bytes for segment in log.segments()} == {65536}


@pytest.mark.parametrize(
    ("ddl", "row", "said"),
    [
        ("payload string, more int", ("a", 1), "does not write column more"),
        ("payload int", (1,), "column payload is INT"),
        ("payload string", (None,), "row 0: column payload is null"),
        ("payload string", ("",), "row 0: column payload is empty"),
        ("payload string, flags int", ("a", 1 << 20), "flags"),
    ],
)
def test_rows_that_cannot_be_records_fail_the_write_and_leave_nothing(
    spark: SparkSession, target: Path, ddl: str, row: tuple[Any, ...], said: str
) -> None:
    assert said in failure(spark.createDataFrame([row], ddl), target)
    assert visible_rows(target) == []
    assert staged_names(target) == []


def test_wrong_options_and_targets_fail_before_any_task(spark: SparkSession, target: Path) -> None:
    df = numbers(spark, 0, 10)
    assert "did you mean segmentBytes" in failure(df, target, segmentByte="64k")
    assert "txnVersion is missing" in failure(df, target, txnAppId="a")
    assert not target.exists()
    with aof2.Aof.open(target, segment_bytes=64 << 10) as log:
        log.append(b"x")
    assert "is a log, and a log has one writer" in failure(df, target)


def test_what_exists_is_an_error_or_left_alone_if_asked(spark: SparkSession, target: Path) -> None:
    save(numbers(spark, 0, 10), target, ifExists="error")
    assert "holds streams already" in failure(numbers(spark, 0, 10), target, ifExists="error")
    save(numbers(spark, 50, 60), target, ifExists="ignore")
    assert_once(target, texts(0, 10))
    save(numbers(spark, 50, 60), target, ifExists="append")
    assert_once(target, [*texts(0, 10), *texts(50, 60)])


def test_spark_itself_refuses_the_modes_it_has_no_way_to_pass_on(
    spark: SparkSession, target: Path
) -> None:
    """If this fails, Spark learnt it: then map these modes to ifExists."""
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(numbers(spark, 0, 1), target, mode)


def test_no_rows_leave_a_target_without_streams(spark: SparkSession, target: Path) -> None:
    save(numbers(spark, 0, 10), target)
    save(numbers(spark, 0, 0), target)
    assert_once(target, texts(0, 10))
    save(numbers(spark, 0, 0), target, "overwrite")
    assert visible_rows(target) == []


def test_a_job_that_is_run_again_with_its_version_writes_nothing(
    spark: SparkSession, target: Path
) -> None:
    for version, end in ((1, 10), (1, 99), (2, 20)):
        save(numbers(spark, 0, end), target, "overwrite", txnAppId="nightly", txnVersion=version)
        assert_once(target, texts(0, 20 if version == 2 else 10))
    save(numbers(spark, 0, 5), target, txnAppId="nightly", txnVersion=2, ifExists="error")
    save(numbers(spark, 20, 25), target, txnAppId="other", txnVersion=0)
    assert_once(target, texts(0, 25))


def test_a_frame_may_be_read_from_the_target_that_it_overwrites(
    spark: SparkSession, target: Path
) -> None:
    """Tasks read the old streams, which are there until the commit."""
    save(numbers(spark, 0, 100), target)
    read = spark.read.format("aof2").load(str(target)).selectExpr("concat('+', payload) as payload")
    save(read, target, "overwrite")
    assert_once(target, [b"+" + text for text in texts(0, 100)])


def test_relative_paths_and_uris_are_the_drivers(
    spark: SparkSession, tmp_path: Path, target: Path
) -> None:
    uri = target.as_uri()
    numbers(spark, 0, 10).write.format("aof2").mode("append").save(uri)
    assert_once(target, texts(0, 10))
    assert Path(uri[len("file://") :]) == target
