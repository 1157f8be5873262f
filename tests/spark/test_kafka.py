"""``option("layout", "kafka")``: the columns of Kafka's source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support import payload, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_rows_look_as_those_of_kafkas_source(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "clicks", 40)
    write_log(tmp_path / "orders", 10)
    frame = (
        spark.read.format("aof2")
        .option("layout", "kafka")
        .option("startingOffsets", '{"clicks": {"0": 30}, "orders": {"0": -2}}')
        .option("endingOffsets", '{"clicks": {"0": -1}, "orders": {"0": 5}}')
        .load(str(tmp_path))
    )

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int>"
    )
    rows = frame.orderBy("topic", "offset").collect()
    assert [(row.topic, row.offset) for row in rows] == [
        *(("clicks", offset) for offset in range(30, 40)),
        *(("orders", offset) for offset in range(5)),
    ]
    for row in rows:
        assert (row.key, row.partition, row.timestampType) == (None, 0, 0)
        assert bytes(row.value) == payload(row.offset)
    # What a query written for Kafka starts with.
    text = frame.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)")
    assert text.where("value = '0:'").count() == 1


def test_a_part_of_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "clicks", 40)
    source = spark.read.format("aof2").option("layout", "kafka")

    frame = source.schema("partition INT, key BINARY").load(str(tmp_path))

    assert frame.where("partition = 0 AND key IS NULL").count() == 40
