"""``format("aof2.manifest")``: what happened to segments, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def make_log(path: Path, segments: int) -> None:
    with aof2.Aof.open(path, segment_bytes=64 << 10, manifest_mode="enabled") as log:
        for _ in range(segments):
            log.append(b"x")
            log.seal()


def test_manifests_are_tables(spark: SparkSession, tmp_path: Path) -> None:
    make_log(tmp_path / "logs" / "a", 2)
    make_log(tmp_path / "logs" / "b", 3)
    table = spark.read.format("aof2.manifest").load(str(tmp_path / "logs"))
    assert table.columns[:2] == ["stream", "ordinal"]
    seals = table.where("type = 'SealSegment'").groupBy("stream").count().collect()
    assert sorted((row["stream"], row["count"]) for row in seals) == [("a", 2), ("b", 3)]
    rows = table.where("stream = 'a'").orderBy("ordinal").collect()
    expected = list(aof2.Manifest.open(tmp_path / "logs" / "a").records())
    assert [(row["type"], row["segment_id"]) for row in rows] == [
        (record.type, record.segment_id) for record in expected
    ]
    assert [row["timestamp"].timestamp() for row in rows] == [
        record.timestamp_ms / 1000 for record in expected
    ]
    few = spark.read.format("aof2.manifest").schema("type STRING, segment_id BIGINT")
    assert few.load(str(tmp_path / "logs" / "a")).count() == len(expected)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("color STRING", {}, "color"),
        ("ordinal STRING", {}, "bigint"),
        (None, {"startingOffsets": "earliest"}, "(?i)startingoffsets"),
    ],
)
def test_wrong_requests_are_refused_by_name(
    spark: SparkSession,
    tmp_path: Path,
    schema: str | None,
    options: dict[str, str],
    message: str,
) -> None:
    make_log(tmp_path / "events", 1)
    reader = spark.read.format("aof2.manifest").options(**options)
    with pytest.raises(Exception, match=message):
        (reader.schema(schema) if schema else reader).load(str(tmp_path / "events")).collect()


def test_a_log_without_a_manifest_is_a_clear_error(spark: SparkSession, tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "plain") as log:
        log.append(b"x")
    with pytest.raises(Exception, match="no manifest"):
        spark.read.format("aof2.manifest").load(str(tmp_path / "plain")).count()
