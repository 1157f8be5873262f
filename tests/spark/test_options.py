"""Options: every one is read, and a wrong one is named with what is allowed."""

from __future__ import annotations

import pytest
from aof2.spark.errors import InvalidOption
from aof2.spark.read.options import option_names, parse_layout, parse_options
from aof2.spark.read.positions import EARLIEST, LATEST, Position, Positions
from aof2.spark.values import parse_moment_ms, parse_size_bytes, parse_span_ms

HALF_PAST = 1_769_853_600_000


def test_defaults() -> None:
    batch = parse_options({"path": "events"}, "batch")
    assert batch.paths == ("events",)
    assert batch.starting == Positions(EARLIEST)
    assert batch.ending == Positions(LATEST)
    assert (batch.visibility, batch.on_corruption, batch.layout) == ("durable", "fail", "records")
    assert batch.fail_on_data_loss
    # As Kafka's source: a stream starts with what comes.
    assert parse_options({"path": "events"}, "stream").starting == Positions(LATEST)


def test_every_batch_option_is_read() -> None:
    given = {
        "paths": '["a", "b"]',
        "layout": "kafka",
        "startingOffsets": "10",
        "endingTimestamp": "2026-01-31T10:00:00+00:00",
        "visibility": "appended",
        "failOnDataLoss": "false",
        "onCorruption": "skip",
        "verifyChecksums": "false",
        "minPartitions": "3",
        "maxBytesPerPartition": "64m",
        "batchBytes": "1048576",
        "pushdown": "false",
    }
    options = parse_options({name.lower(): value for name, value in given.items()}, "batch")

    assert options.paths == ("a", "b")
    assert options.layout == "kafka"
    assert options.starting == Positions(Position("offset", 10))
    assert options.ending == Positions(Position("timestamp", HALF_PAST))
    assert options.visibility == "appended"
    assert not options.fail_on_data_loss
    assert options.on_corruption == "skip"
    assert options.verify_checksums is False
    assert options.min_partitions == 3
    assert options.max_bytes_per_partition == 64 << 20
    assert options.batch_bytes == 1 << 20


def test_every_stream_option_is_read() -> None:
    options = parse_options(
        {
            "path": "a",
            "maxOffsetsPerTrigger": "100",
            "maxBytesPerTrigger": "1m",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "30s",
            "startingTimestamp": "1500",
        },
        "stream",
    )
    assert options.max_offsets_per_trigger == 100
    assert options.max_bytes_per_trigger == 1 << 20
    assert options.min_offsets_per_trigger == 10
    assert options.max_trigger_delay_ms == 30_000
    assert options.starting == Positions(Position("timestamp", 1_500))


@pytest.mark.parametrize(
    "text",
    ['{"events": 7, "clicks": "latest"}', '{"events": {"0": 7}, "clicks": {"0": -1}}'],
)
def test_offsets_per_stream_as_streaming_and_as_kafka_write_them(text: str) -> None:
    options = parse_options({"path": "a", "startingOffsets": text}, "batch")

    by_stream = {"events": Position("offset", 7), "clicks": LATEST}
    assert options.starting == Positions(EARLIEST, by_stream)


@pytest.mark.parametrize(
    ("given", "query", "says"),
    [
        ({}, "batch", ["load"]),
        ({"startingOffset": "5"}, "batch", ["'startingOffset'", "did you mean startingOffsets?"]),
        ({"frobnicate": "5"}, "batch", ["'frobnicate'", "minPartitions", "onCorruption"]),
        ({"batchBytes": "big"}, "batch", ["batchBytes", "'big'", "64k, 128m"]),
        ({"batchBytes": "0"}, "batch", ["batchBytes", "'0'"]),
        ({"minPartitions": "0"}, "batch", ["minPartitions", "from 1 on"]),
        ({"minPartitions": "٣"}, "batch", ["minPartitions"]),
        ({"visibility": "all"}, "batch", ["visibility", "durable or appended"]),
        ({"onCorruption": "ignore"}, "batch", ["onCorruption", "fail or skip"]),
        ({"failOnDataLoss": "no"}, "batch", ["failOnDataLoss", "true or false"]),
        ({"layout": "avro"}, "batch", ["layout", "records or kafka"]),
        ({"startingOffsets": "soon"}, "batch", ["startingOffsets", "'soon'", "earliest, latest"]),
        ({"startingOffsets": "-5"}, "batch", ["startingOffsets", "-5"]),
        ({"startingOffsets": '{"a": -7}'}, "batch", ["startingOffsets", "-7"]),
        ({"startingOffsets": '{"a": {"1": 5}}'}, "batch", ["one partition"]),
        ({"startingOffsets": '{"a": '}, "batch", ["startingOffsets", "JSON"]),
        ({"startingOffsets": "latest"}, "batch", ["startingOffsets", "nothing to read"]),
        ({"endingOffsets": "earliest"}, "batch", ["endingOffsets", "nothing to read"]),
        ({"startingTimestamp": "yesterday"}, "batch", ["startingTimestamp", "ISO 8601"]),
        ({"startingTimestamp": "1", "startingOffsets": "1"}, "batch", ["exclude each other"]),
        ({"pushdown": "true"}, "batch", ["pushdown", "scanned twice", "startingOffsets"]),
        ({"paths": '"a"'}, "batch", ["paths", "JSON list"]),
        ({"maxOffsetsPerTrigger": "5"}, "batch", ["maxOffsetsPerTrigger", "spark.readStream only"]),
        ({"endingOffsets": "5"}, "stream", ["endingOffsets", "spark.read only"]),
        ({"visibility": "appended"}, "stream", ["visibility", "durable"]),
        ({"maxTriggerDelay": "a while"}, "stream", ["maxTriggerDelay", "15m"]),
    ],
)
def test_wrong_options_are_named_with_what_is_allowed(
    given: dict[str, str], query: str, says: list[str]
) -> None:
    if given and "paths" not in given:
        given = {"path": "events", **given}
    with pytest.raises(InvalidOption) as raised:
        parse_options(given, query)  # type: ignore[arg-type]
    for part in says:
        assert part in str(raised.value)


def test_names_of_options() -> None:
    assert "endingOffsets" in option_names("batch")
    assert "endingOffsets" not in option_names("stream")
    assert parse_layout({}) == "records"
    assert parse_layout({"layout": "Kafka"}) == "kafka"


def test_values_as_people_write_them() -> None:
    assert [parse_size_bytes(t) for t in ("1", "1k", "2 MiB", "1GB")] == [1, 1024, 2 << 20, 10**9]
    assert [parse_span_ms(t) for t in ("5", "5s", "2min", "1h")] == [5, 5_000, 120_000, 3_600_000]
    assert parse_moment_ms("2026-01-31T10:00:00") == HALF_PAST
    assert parse_moment_ms("2026-01-31T12:00:00+02:00") == HALF_PAST
    assert parse_moment_ms("2026-01-31T10:00:00.000001") == HALF_PAST + 1
