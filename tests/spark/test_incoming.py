"""Which column means what, and which rows go where."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from aof2.spark.errors import InvalidOption, InvalidSchema
from aof2.spark.write.incoming import InvalidRows, rows_by_stream
from aof2.spark.write.options import WriteOptions, parse_write_options, write_option_names
from aof2.spark.write.row_layout import RowLayout, row_layout
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType
from support import steady


def schema(ddl: str) -> StructType:
    """Spark's parser needs a JVM, so types are taken by their JSON names."""
    names = {"int": "integer", "bigint": "long", "smallint": "short", "tinyint": "byte"}
    fields = [part.strip().split(" ", 1) for part in ddl.split(",")]
    return StructType.fromJson(
        {
            "type": "struct",
            "fields": [
                {"name": n, "type": names.get(t, t), "nullable": True, "metadata": {}}
                for n, t in fields
            ],
        }
    )


def columns(batches: list[pa.RecordBatch], layout: RowLayout) -> list[tuple[Any, list[Any]]]:
    return [(rows.stream, rows.rows.to_pylist()) for _, rows in rows_by_stream(batches, layout, 5)]


@pytest.mark.parametrize(
    ("ddl", "layout"),
    [
        ("payload binary", RowLayout(0)),
        ("value string", RowLayout(0, payload_name="value")),
        ("Payload varchar(10)", RowLayout(0)),
        ("flags int, timestamp timestamp, payload binary", RowLayout(2, None, 1, 0)),
        ("stream string, payload string, flags bigint", RowLayout(1, 0, None, 2)),
        ("key binary, value binary", RowLayout(1, key=0, payload_name="value")),
    ],
)
def test_columns_are_found_by_name_in_any_order(ddl: str, layout: RowLayout) -> None:
    assert row_layout(schema(ddl), "fail") == layout


def test_a_dropped_key_is_not_looked_at() -> None:
    assert row_layout(schema("key string, value string"), "drop").key is None


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        ("payload binary, offset bigint, extra string", r"does not write columns offset, extra"),
        ("payload binary, topic string", r"column topic.*rename it to stream"),
        ("payload binary, value binary", r"both a column payload and a column value"),
        ("timestamp timestamp", r"which column are the records\? Name one payload"),
        ("payload binary, Payload binary", r"column Payload is there twice"),
        ("payload int", r"column payload is INT, a log takes BINARY or STRING; cast it"),
        ("payload binary, timestamp timestamp_ntz", r"TIMESTAMP_NTZ.*cast it to TIMESTAMP"),
        ("payload binary, timestamp bigint", r"column timestamp is BIGINT, a log takes TIMESTAMP"),
        ("payload binary, flags string", r"column flags is STRING, a log takes INT"),
        ("payload binary, stream binary", r"column stream is BINARY, a log takes STRING"),
    ],
)
def test_columns_that_would_be_lost_or_misread_are_refused(ddl: str, said: str) -> None:
    with pytest.raises(InvalidSchema, match=said):
        row_layout(schema(ddl), "fail")


def test_time_zones_and_fields_that_are_not_nullable_are_fine() -> None:
    fields = [
        pa.field("payload", pa.utf8(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="Europe/Berlin"), nullable=False),
    ]
    batch = pa.record_batch(
        [pa.array(["a"]), pa.array([1_700_000_000_123_456], fields[1].type)],
        schema=pa.schema(fields),
    )
    ((_, rows),) = rows_by_stream([batch], RowLayout(0, timestamp=1), 0)
    assert rows.rows.schema.names == ["payload", "timestamp"]
    assert rows.rows.column(1).cast(pa.int64()).to_pylist() == [1_700_000_000_123_456]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.utf8(), pa.large_utf8()])
def test_the_place_of_a_bad_row_is_named(kind: pa.DataType) -> None:
    good = pa.record_batch({"value": pa.array(["a", "b"]).cast(kind)})
    null = pa.record_batch({"value": pa.array(["a", None, None]).cast(kind)})
    empty = pa.record_batch({"value": pa.array(["a", "b", ""]).cast(kind)})
    layout = RowLayout(0, payload_name="value")
    with pytest.raises(InvalidRows, match="partition 5, batch 1, row 1: column value is null"):
        columns([good, null], layout)
    with pytest.raises(InvalidRows, match="partition 5, batch 2, row 2: column value is empty"):
        columns([good, good, empty], layout)


@pytest.mark.parametrize(("place", "name"), [(1, "stream"), (2, "timestamp"), (3, "flags")])
def test_nulls_are_refused_in_every_column(place: int, name: str) -> None:
    values: list[list[Any]] = [["a", "b"], ["s", "t"], [1, 2], [0, 1]]
    values[place][1] = None
    types = [pa.utf8(), pa.utf8(), pa.timestamp("us", tz="UTC"), pa.int32()]
    arrays = [pa.array(v, t) for v, t in zip(values, types, strict=True)]
    batch = pa.record_batch(arrays, names=["payload", "stream", "timestamp", "flags"])
    with pytest.raises(InvalidRows, match=f"row 1: column {name} is null"):
        columns([batch], RowLayout(0, 1, 2, 3))


def test_a_key_is_refused_unless_it_is_null() -> None:
    layout = RowLayout(1, key=0, payload_name="value")
    nulls = pa.record_batch({"key": pa.nulls(2, pa.binary()), "value": ["a", "b"]})
    assert columns([nulls], layout) == [(None, [{"payload": "a"}, {"payload": "b"}])]
    keyed = pa.record_batch({"key": pa.array([None, b"k"]), "value": ["a", "b"]})
    with pytest.raises(InvalidRows, match=r"row 1: column key is not null.*onKey.*drop"):
        columns([keyed], layout)


rows_of_batches = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", "ü", ""]), st.binary(min_size=1, max_size=20)))
)


@steady
@given(rows_of_batches)
def test_rows_reach_their_stream_in_their_order(given_rows: list[list[tuple[str, bytes]]]) -> None:
    expected: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    batches, number = [], 0
    for rows in given_rows:
        flags = list(range(number, number + len(rows)))
        number += len(rows)
        for (stream, payload), flag in zip(rows, flags, strict=True):
            expected[stream].append((payload, flag))
        batches.append(
            pa.record_batch(
                [
                    pa.array([s for s, _ in rows], pa.utf8()),
                    pa.array([p for _, p in rows], pa.binary()),
                    pa.array(flags, pa.int32()),
                ],
                names=["stream", "payload", "flags"],
            )
        )
    found: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for stream, rows in columns(batches, RowLayout(1, 0, None, 2)):
        assert rows
        found[stream] += [(row["payload"], row["flags"]) for row in rows]
    assert found == expected


def parsed(query: str = "batch", *, overwrite: bool = False, **given: str) -> WriteOptions:
    options = {"path": "/data/t", **given}
    return parse_write_options(options, query, overwrite=overwrite)  # type: ignore[arg-type]


def test_options_are_read_as_people_write_them() -> None:
    options = parsed(
        segmentbytes="64k", stagingMaxAge="12h", FORMAT="Compact", txnAppId="a", txnVersion="7"
    )
    assert options.segment_bytes == 65536
    assert options.staging_max_age_ms == 12 * 3_600_000
    assert options.format == "compact"
    assert options.txn is not None
    assert (options.txn.app, options.txn.version) == ("a", 7)
    assert parsed(path="file:///data/with%20space").target.as_posix() == "/data/with space"
    assert parsed(path="relative").target.is_absolute()


@pytest.mark.parametrize(
    ("given_options", "said"),
    [
        ({"segmentBytes": "100000"}, "segmentBytes: '100000'.*power of two"),
        ({"segmentBytes": "4g"}, "segmentBytes"),
        ({"format": "parquet"}, "full or compact"),
        ({"onKey": "keep"}, "fail or drop"),
        ({"stagingMaxAge": "a week"}, "span of time"),
        ({"txnAppId": "a"}, "txnVersion is missing"),
        ({"txnVersion": "1"}, "txnAppId is missing"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "a whole number that grows"),
        ({"segmentByte": "64k"}, "no option 'segmentByte' for writing; did you mean segmentBytes"),
        ({"checkpointLocation": "c"}, "for df.writeStream only"),
        ({"path": ""}, "where to"),
        ({"path": "s3://bucket/t"}, "path"),
    ],
)
def test_wrong_options_are_refused_by_name(given_options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        parsed(**given_options)


def test_options_of_the_other_kind_of_query_are_refused() -> None:
    with pytest.raises(InvalidOption, match=r"txnVersion is for df\.write only"):
        parsed("stream", txnVersion="1")
    with pytest.raises(InvalidOption, match=r"ifExists is for df\.write only"):
        parsed("stream", ifExists="error")
    with pytest.raises(InvalidOption, match="replaces what exists"):
        parsed(overwrite=True, ifExists="ignore")
    assert parsed("stream", checkpointLocation="c", txnAppId="a").txn_app_id == "a"
    assert "ifExists" not in write_option_names("stream")
