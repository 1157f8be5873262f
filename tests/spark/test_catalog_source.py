"""``format("aof2.catalog")``: a table of a catalog, now or after a generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    with aof2.Catalog.open(root, actor="alice") as catalog:
        for name in ("app", "shop"):
            catalog.register_db(name, "pages", config_hash=2**64 - 1).wait()
        catalog.record_metric(1, 7, 250).wait()
        catalog.enqueue_job("app", "gc", payload=b"\x00\xff").wait()
    return root


def test_a_table_is_what_the_catalog_says(spark: SparkSession, root: Path) -> None:
    def read(table: str) -> list[dict[str, object]]:
        loaded = spark.read.format("aof2.catalog").option("table", table).load(str(root))
        return [row.asDict() for row in loaded.collect()]

    with aof2.Catalog.open(root) as catalog:  # beside a writer
        databases = read("db")
        view = catalog.view()
    assert [row["name"] for row in databases] == ["app", "shop"]
    assert databases[0]["config_hash"] == "f" * 16
    created = view.databases()[0].created
    assert databases[0]["created"].timestamp() == created.timestamp()  # type: ignore[attr-defined]
    (job,) = read("job_queue")
    assert bytes(job["payload"]) == b"\x00\xff"  # type: ignore[call-overload]
    (figure,) = read("metrics")
    assert figure["buckets"] == view.metrics()[0].buckets
    assert read("intents") == []


def test_a_generation_is_travelled_to(spark: SparkSession, root: Path) -> None:
    reader = spark.read.format("aof2.catalog").option("table", "db")
    first = reader.option("generation", 1).load(str(root))
    assert [row["name"] for row in first.select("name").collect()] == ["app"]
    few = spark.read.format("aof2.catalog").option("table", "db").schema("name STRING, kind STRING")
    assert few.load(str(root)).where("kind = 'pages'").count() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'table'"),
        ({"table": "dbs"}, "there are db, wal_state"),
        ({"table": "db", "generation": "monday"}, "generation"),
        ({"table": "db", "generation": "99"}, "no generation 99 yet"),
        ({"table": "db", "startingOffsets": "earliest"}, "(?i)startingoffsets"),
    ],
)
def test_wrong_requests_are_refused_by_name(
    spark: SparkSession, root: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        spark.read.format("aof2.catalog").options(**options).load(str(root)).collect()


def test_wrong_columns_and_no_catalog_are_clear_errors(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    reader = spark.read.format("aof2.catalog").option("table", "db")
    with pytest.raises(Exception, match="color"):
        reader.schema("color STRING").load(str(root)).collect()
    other = spark.read.format("aof2.catalog").option("table", "db")
    with pytest.raises(Exception, match="not an aof2 log"):
        other.load(str(tmp_path)).collect()
