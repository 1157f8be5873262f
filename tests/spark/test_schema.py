"""Columns: a schema may name some of them, in any order, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aof2.spark.errors import InvalidSchema
from aof2.spark.read.schema import layout_ddl, native_columns, query_columns
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def schema(*fields: tuple[str, object, bool]) -> StructType:
    return StructType([StructField(*field) for field in fields])  # type: ignore[arg-type]


def test_a_subset_in_any_order_with_the_nullability_that_was_asked_for() -> None:
    columns = query_columns(
        schema(("payload", BinaryType(), True), ("offset", LongType(), False)), "records"
    )
    assert columns.native == ("payload", "offset")
    assert columns.arrow_schema().equals(
        pa.schema([pa.field("payload", pa.binary()), pa.field("offset", pa.int64(), False)])
    )


def test_only_payloads_cost_payload_bytes() -> None:
    assert not query_columns(schema(("timestamp", TimestampType(), True)), "records").has_payload
    assert query_columns(schema(("value", BinaryType(), True)), "kafka").has_payload


def test_columns_that_are_the_same_everywhere_still_need_rows() -> None:
    columns = query_columns(schema(("partition", IntegerType(), True)), "kafka")
    assert columns.native == ("offset",)


@pytest.mark.parametrize(
    ("wrong", "layout", "says"),
    [
        (schema(("size", LongType(), True)), "records", ["'size'", "offset BIGINT", "payload"]),
        (schema(("payload", BinaryType(), True)), "kafka", ["'payload'", "value BINARY"]),
        (schema(("offset", StringType(), True)), "records", ["offset", "BIGINT", "STRING", "cast"]),
        (schema(("flags", LongType(), True)), "records", ["flags", "INT"]),
        (schema(("key", BinaryType(), False)), "kafka", ["key", "null"]),
        (schema(), "records", ["at least one"]),
        (schema(*[("offset", LongType(), True)] * 2), "records", ["offset", "twice"]),
    ],
)
def test_anything_else_is_a_clear_error(wrong: StructType, layout: str, says: list[str]) -> None:
    with pytest.raises(InvalidSchema) as raised:
        query_columns(wrong, layout)  # type: ignore[arg-type]
    for part in says:
        assert part in str(raised.value)


def test_columns_by_name() -> None:
    assert native_columns(["offset", "payload"]).native == ("offset", "payload")
    assert "stream" in native_columns(None).native
    with pytest.raises(InvalidSchema, match="'length'"):
        native_columns(["length"])
    with pytest.raises(InvalidSchema, match="at least one"):
        native_columns([])


def test_only_a_kafka_key_can_be_null() -> None:
    assert layout_ddl("records").count("NOT NULL") == 7
    assert layout_ddl("kafka").startswith("`key` binary, `value` binary NOT NULL")
