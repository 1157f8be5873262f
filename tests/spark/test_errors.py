"""Errors say what failed, where, and what to do."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import aof2
import aof2.spark
import pyspark
import pytest
from aof2.spark.errors import DataLoss, InvalidOption, PackageMismatch, explained
from aof2.spark.read.batch import BatchReader
from aof2.spark.requirements import require_spark
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType
from support import child_env, flip_byte, last_line, offsets_in, segment_files, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def failure(spark: SparkSession, path: Path, **options: str) -> str:
    with pytest.raises(pyspark.errors.PySparkException) as raised:
        spark.read.format("aof2").options(**options).load(str(path)).collect()
    return last_line(raised.value)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log with one damaged record in its second segment."""
    log = write_log(tmp_path / "events", 3_000)
    flip_byte(segment_files(log)[1], 30_000)
    return log


def test_a_query_shows_what_is_wrong_with_its_path_options_and_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "events", 10)
    (tmp_path / "empty").mkdir()

    assert "does not exist" in failure(spark, tmp_path / "nowhere")
    assert "neither an aof2 log nor a directory of logs" in failure(spark, tmp_path / "empty")
    wrong = failure(spark, log, startingOffset="5")
    assert "did you mean startingOffsets?" in wrong
    wrong = failure(spark, log, batchBytes="big")
    assert "batchBytes" in wrong
    assert "128m" in wrong
    with pytest.raises(pyspark.errors.PySparkException) as raised:
        spark.read.format("aof2").schema("size BIGINT").load(str(log)).collect()
    assert "there is no column 'size'" in last_line(raised.value)
    assert "offset BIGINT" in last_line(raised.value)


def test_damage_names_file_and_byte_and_can_be_skipped_and_counted(
    spark: SparkSession, damaged: Path
) -> None:
    report = aof2.verify(damaged)
    (problem,) = [p for p in report.problems if p.kind == "record"]

    said = failure(spark, damaged)

    assert f"damage at byte {problem.offset} of {problem.path}" in said
    assert 'option("onCorruption", "skip")' in said
    rest = spark.read.format("aof2").option("onCorruption", "skip").load(str(damaged))
    start, end = problem.records
    assert end is not None
    missing = set(range(3_000)) - {row.offset for row in rest.select("offset").collect()}
    assert missing == set(range(start, end))
    # Splits count what they passed over.
    splits = aof2.spark.partitions(damaged, minPartitions=4)
    readers = [aof2.spark.read_partition(s, format="arrow", on_corruption="skip") for s in splits]
    assert [o for r in readers for o in offsets_in(iter(r))] == sorted(set(range(3_000)) - missing)
    assert sum(r.skipped for r in readers) == len(missing)
    by_record = [aof2.spark.read_partition(s, on_corruption="skip") for s in splits]
    assert sum(1 for r in by_record for _ in r) == 3_000 - len(missing)
    assert sum(r.skipped for r in by_record) == len(missing)  # type: ignore[attr-defined]


def test_footers_tell_offsets_alone_unless_records_are_to_be_looked_at(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "events", 3_000)
    with segment_files(log)[1].open("r+b") as file:
        # Longer than a record, so a header is lost, too.
        file.seek(30_000)
        file.write(bytes(300))

    def offsets_with(**options: str) -> list[int]:
        reader = spark.read.format("aof2").schema("offset BIGINT").options(**options)
        return sorted(row.offset for row in reader.load(str(log)).collect())

    assert offsets_with() == list(range(3_000))
    with pytest.raises(pyspark.errors.PySparkException) as raised:
        offsets_with(verifyChecksums="true")
    assert "damage at byte" in last_line(raised.value)
    rest = spark.read.format("aof2").option("onCorruption", "skip").load(str(log))
    intact = sorted(row.offset for row in rest.select("offset").collect())
    assert len(intact) < 3_000
    assert offsets_with(onCorruption="skip", verifyChecksums="true") == intact
    assert len(offsets_with(onCorruption="skip")) < 3_000


def test_skipped_records_are_logged(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    (split,) = aof2.spark.partitions(damaged, minPartitions=1)
    list(aof2.spark.read_partition(split, format="arrow", on_corruption="skip"))
    assert "passed over" in caplog.text
    assert "stream events" in caplog.text


def test_what_a_repair_gave_up_is_counted_and_logged(
    damaged: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tasks passed over gaps without a word."""
    (lost,) = aof2.repair(damaged).lost
    start, end = lost.records
    for format in ("arrow", "records"):
        caplog.clear()
        splits = aof2.spark.partitions(damaged, minPartitions=4)
        readers: list[Any] = [aof2.spark.read_partition(s, format=format) for s in splits]
        for reader in readers:
            for _ in reader:
                pass
        assert sum(reader.skipped for reader in readers) == end - start
        assert sum(reader.lost for reader in readers) == end - start
        (message,) = [record.getMessage() for record in caplog.records]
        assert message == (
            f"stream events: passed over {end - start} records that were lost before the log "
            f"was repaired: {start} to {end - 1}"
        )


def test_a_typed_error_reaches_whoever_reads_splits(damaged: Path) -> None:
    (split,) = aof2.spark.partitions(damaged, minPartitions=1)
    with pytest.raises(aof2.Corrupt, match="onCorruption") as raised:
        list(aof2.spark.read_partition(split, format="arrow"))
    assert raised.value.path == str(segment_files(damaged)[1])
    with pytest.raises(aof2.Corrupt, match="onCorruption"):
        list(aof2.spark.read_partition(split))


def test_a_trimmed_range_says_what_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 3_000)
    with aof2.Aof.open(log, segment_bytes=64 << 10) as writer:
        earliest = writer.apply_retention(before_offset=2_000).earliest_offset

    said = failure(spark, log, startingOffsets="10")

    assert f"records 10 to {earliest - 1} of stream 'events'" in said
    assert "failOnDataLoss" in said
    rest = spark.read.format("aof2").options(startingOffsets="10", failOnDataLoss="false")
    assert rest.load(str(log)).count() == 3_000 - earliest


def test_retention_between_plan_and_task_is_loss_too(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 3_000)
    schema = StructType([StructField("offset", LongType()), StructField("payload", BinaryType())])
    readers = {
        fail: BatchReader.for_query({"path": str(log), "failOnDataLoss": fail}, schema)
        for fail in ("true", "false")
    }
    plans = {fail: reader.partitions() for fail, reader in readers.items()}
    with aof2.Aof.open(log, segment_bytes=64 << 10) as writer:
        earliest = writer.apply_retention(before_offset=2_000).earliest_offset

    with pytest.raises(aof2.Trimmed, match="failOnDataLoss"):
        [list(readers["true"].read(part)) for part in plans["true"]]
    left = [o for part in plans["false"] for o in offsets_in(readers["false"].read(part))]
    assert left == list(range(earliest, 3_000))


def test_a_task_that_sees_less_than_the_plan_fails(tmp_path: Path) -> None:
    # What a machine would see whose directory is not the one of the driver.
    log = write_log(tmp_path / "events", 100)
    (split,) = aof2.spark.partitions(log)
    piece = split.pieces[0]
    longer = aof2.spark.Split((aof2.spark.Piece(piece.stream, piece.path, 0, 150),))

    with pytest.raises(
        aof2.spark.IncompleteRead, match="only up to 100, but the plan reads up to 150"
    ):
        list(aof2.spark.read_partition(longer, format="arrow"))
    with pytest.raises(aof2.spark.IncompleteRead, match="only up to 100"):
        list(aof2.spark.read_partition(longer))


def test_an_executor_without_the_package_or_with_another_version_says_so(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 10)
    schema = StructType([StructField("offset", LongType())])
    reader = BatchReader.for_query({"path": str(log)}, schema)
    (tmp_path / "reader.pickle").write_bytes(cloudpickle.dumps(reader))
    unpickle = "import pickle; pickle.load(open('reader.pickle', 'rb'))"

    def said(prelude: str) -> str:
        run = subprocess.run(
            [sys.executable, "-c", prelude + unpickle],
            cwd=tmp_path,
            env=child_env(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        return run.stderr.strip().splitlines()[-1] if run.returncode else "fine"

    assert said("") == "fine"
    missing = said("import sys; sys.modules['aof2'] = None; ")
    assert missing.startswith("ImportError: the Python of ")
    assert "cannot import aof2" in missing
    assert "PYSPARK_PYTHON" in missing
    major, minor, patch = (int(part) for part in aof2.__version__.split("."))
    for other in ("0.0.1", f"{major}.{minor + 1}.0", f"{major + 1}.{minor}.{patch}"):
        wrong = said(f"import aof2; aof2.__version__ = {other!r}; ")
        assert f"has aof2 {other}, the driver has {aof2.__version__}" in wrong
    newer_patch = f"{major}.{minor}.{patch + 1}"
    assert said(f"import aof2; aof2.__version__ = {newer_patch!r}; ") == "fine"


def test_an_old_spark_is_refused_when_the_source_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.1.2")
    with pytest.raises(PackageMismatch, match=r"needs PySpark 4\.2 or newer, this is 4\.1\.2"):
        require_spark()
    # But looking for sources goes on: other sources must still be found.
    import pyspark_aof2

    source = pyspark_aof2.DefaultSource({"path": "x"})
    assert source.name() == "aof2"
    with pytest.raises(PackageMismatch):
        source.schema()


def test_a_worker_with_too_little_address_space_learns_why() -> None:
    error = aof2.IoError("map segment failed (x.seg)", operation="map", errno=12, filename="x.seg")
    assert "spark.executor.pyspark.memory" in str(explained(error))


@pytest.mark.parametrize(
    "error",
    [
        InvalidOption("option x: no", option="x"),
        DataLoss("gone", stream="events", earliest=7),
        aof2.spark.InvalidSchema("no such column", column="c"),
        aof2.spark.IncompleteRead("less"),
    ],
)
def test_errors_travel_between_processes(error: Exception) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)
