"""``pipelines.export``: what is in the Parquet files is what is in the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from aof2.spark import InvalidOption, InvalidSchema, pipelines
from pipelines_support import assert_complete, damage, write_flagged
from pyspark.errors import AnalysisException
from support import FIRST_MS, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 1_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flagged(tmp_path_factory.mktemp("export") / "events", COUNT)


def rows_of(target: Path) -> list[dict[str, Any]]:
    """All rows, file by file in the order of their names."""
    files = sorted(target.glob("part-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def rows_of_log(log: Path, start: int, end: int) -> list[dict[str, Any]]:
    with aof2.open(log) as reader:
        return [
            {
                "stream": "events",
                "segment_id": record.id.segment_index,
                "offset": record.offset,
                "record_id": int(record.id),
                "timestamp": record.timestamp,
                "flags": record.flags,
                "payload": bytes(record),
            }
            for record in reader.scan(start, end)
        ]


def test_exported_files_hold_the_records_in_order(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out put.parquet"
    told: list[pipelines.Progress] = []
    report = pipelines.export(
        log, target, spark=spark, start=10, end=COUNT - 5, progress=told.append, minPartitions=3
    )

    rows = rows_of(target)
    assert rows == rows_of_log(log, 10, COUNT - 5)
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
    assert report == pipelines.ExportReport(
        path=str(log),
        target=str(target),
        streams=(pipelines.ExportedStream("events", 10, COUNT - 5),),
        columns=tuple(rows[0]),
        record_count=COUNT - 15,
        file_count=3,
        missing=0,
    )
    assert_complete(told, "export")
    assert told[-1].total == 3
    assert report.to_dict()["streams"] == [{"stream": "events", "start": 10, "end": COUNT - 5}]


def test_appending_adds_and_an_existing_target_is_left_alone(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    columns = ["payload", "offset"]
    first = pipelines.export(log, target, spark=spark, end=20, columns=columns, mode="append")
    with aof2.open(log) as reader:
        middle = reader.read_offset(40).id
    with pytest.raises(AnalysisException):
        pipelines.export(log, target, spark=spark, end=20, columns=columns)
    more = pipelines.export(
        log, target, spark=spark, start=30, end=middle, columns=columns, mode="append"
    )

    assert (first.record_count, first.columns) == (20, ("payload", "offset"))
    assert (more.record_count, more.file_count) == (10, 1)
    table = pq.read_table(target)
    assert table.schema.names == columns
    assert table.schema.types == [pa.binary(), pa.int64()]
    assert sorted(table["offset"].to_pylist()) == [*range(20), *range(30, 40)]

    over = pipelines.export(
        log, target, spark=spark, start=40, end=41, columns=columns, mode="overwrite"
    )
    assert (over.record_count, pq.read_table(target)["offset"].to_pylist()) == (1, [40])


def test_times_and_directories_of_logs_are_ranges_too(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_log(tmp_path / "logs" / name, 50)
    moment = datetime.fromtimestamp(FIRST_MS / 1000, UTC) + timedelta(seconds=45)
    report = pipelines.export(
        tmp_path / "logs", tmp_path / "out", spark=spark, start=moment, compression="snappy"
    )

    assert [(s.stream, s.start, s.end) for s in report.streams] == [("a", 45, 50), ("b", 45, 50)]
    assert [(row["stream"], row["offset"]) for row in rows_of(tmp_path / "out")] == [
        (name, offset) for name in ("a", "b") for offset in range(45, 50)
    ]


def test_an_empty_range_gives_a_file_without_rows(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    report = pipelines.export(log, tmp_path / "out", spark=spark, start=COUNT)
    assert (report.record_count, report.missing) == (0, 0)
    assert pq.read_table(tmp_path / "out").num_rows == 0


def test_damage_ends_the_export_unless_it_is_passed_over(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "events", 60)
    damage(log, [7])
    with pytest.raises(Exception, match="record 7 is affected"):
        pipelines.export(log, tmp_path / "out", spark=spark)
    assert not list((tmp_path / "out").glob("part-*"))

    report = pipelines.export(
        log, tmp_path / "out", spark=spark, mode="overwrite", onCorruption="skip"
    )
    assert (report.record_count, report.missing) == (59, 1)


def test_what_is_not_allowed_is_refused_by_name(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(InvalidOption, match="mode: 'ignore' is not allowed"):
        pipelines.export(log, target, mode="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="compression: 'rar'"):
        pipelines.export(log, target, compression="rar")  # type: ignore[arg-type]
    with pytest.raises(InvalidSchema, match="'length'"):
        pipelines.export(log, target, columns=["length"])
    with pytest.raises(InvalidOption, match="did you mean onCorruption"):
        pipelines.export(log, target, onCorrupt="skip")
    with pytest.raises(ValueError, match="has no time zone"):
        pipelines.export(log, target, start=datetime(2026, 1, 1))
    with pytest.raises(aof2.NotALog, match="does not exist"):
        pipelines.export(tmp_path / "nowhere", target)
    assert list(tmp_path.iterdir()) == []
