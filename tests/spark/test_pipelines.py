"""What all pipelines share: sessions, progress, failures, and the command line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow.parquet as pq
import pytest
from aof2.cli import main
from aof2.spark import pipelines
from aof2.spark.pipelines import tasks
from aof2.spark.pipelines.sessions import running
from pipelines_support import damage, place_of, plain_records
from pyspark.errors import PythonException
from support import HERE, free_port, run_child, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 400


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(tmp_path_factory.mktemp("pipelines") / "events", COUNT)


# Run by name, in workers that cannot import this module: functions that anybody has.


def test_results_come_in_the_order_of_the_items(spark: SparkSession) -> None:
    items = list(range(7))
    assert tasks.run(spark, "", str, items) == [str(item) for item in items]
    assert tasks.run(spark, "", str, []) == []


def test_an_error_of_a_log_comes_back_as_what_it_was(spark: SparkSession, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    with pytest.raises(aof2.NotALog) as failed:
        tasks.run(spark, "", aof2.open, [nowhere])
    assert failed.value.path == nowhere
    with pytest.raises(PythonException, match="invalid literal"):
        tasks.run(spark, "", int, ["1", "two"])


def test_a_session_that_was_passed_in_is_left_as_it_was(spark: SparkSession, log: Path) -> None:
    context = spark.sparkContext
    told: list[pipelines.Progress] = []
    pipelines.verify(log, spark=spark, progress=told.append)
    assert context.getLocalProperty("spark.jobGroup.id") is None

    context.setJobGroup("mine", "my jobs")
    try:
        pipelines.verify(log, spark=spark, progress=told.append)
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert len(context.statusTracker().getJobIdsForGroup("mine")) > 0
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
    with running(None) as active:
        assert active is spark
    assert spark.range(3).count() == 3


def test_a_callback_that_fails_is_heard_of_when_the_job_is_done(
    spark: SparkSession, log: Path
) -> None:
    def fails(state: pipelines.Progress) -> None:
        raise ZeroDivisionError(state.step)

    with pytest.raises(ZeroDivisionError, match="verify"):
        pipelines.verify(log, spark=spark, progress=fails)


def test_finished_tasks_are_counted(spark: SparkSession) -> None:
    from aof2.spark.pipelines.progress import _own_jobs

    spark.range(0, 5, 1, 5).count()
    with _own_jobs(spark) as look:
        assert look() == 0
        tasks.run(spark, "", str, list(range(4)))
        assert look() == 4


def test_pipelines_through_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    log = write_log(tmp_path / "events", COUNT)

    program = HERE / "programs" / "pipelines_connect.py"
    printed = run_child(program, log, tmp_path, free_port(), cwd=tmp_path)

    found = json.loads(printed.splitlines()[-1])
    assert found == {
        "export": COUNT - 10,
        "verify": [True, COUNT],
        "copy": COUNT,
        "profile": COUNT,
        "not a log": True,
        "told": True,
    }
    assert plain_records(tmp_path / "copy") == plain_records(log)
    assert pq.read_table(tmp_path / "out").num_rows == COUNT - 10


# ---- the command line, on the session of these tests ----


class Ran:
    """A command that ran to its end in this process."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> Any:
    def run(*args: object) -> Ran:
        capfd.readouterr()
        code = main(["spark", *map(str, args)])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Ran(int(code), out, err)

    return run


def test_commands_print_what_they_did(run: Any, log: Path, tmp_path: Path) -> None:
    exported = run("export", log, tmp_path / "out", "--from", "10", "--columns", "offset,payload")
    assert (exported.code, exported.err) == (0, "")
    assert exported.out == f"exported 390 records to {tmp_path / 'out'} (1 file)\n"
    assert pq.read_table(tmp_path / "out").column_names == ["offset", "payload"]

    again = run("export", log, tmp_path / "out")
    assert (again.code, again.out) == (1, "")
    assert again.err == (
        "error: TARGET exists already; --mode overwrite replaces it, --mode append adds to it\n"
    )

    healthy = run("verify", log)
    assert (healthy.code, healthy.out) == (0, "healthy: 400 records of 1 log in 1 split\n")

    copied = run("copy", log, tmp_path / "copy", "--segment-bytes", "64k", "--to", "0:64")
    assert (
        copied.out
        == f"copied 0 records (0 B) to {tmp_path / 'copy'} (0 segments), every record compared\n"
    )
    copied = run("copy", log, tmp_path / "copy2", "--json")
    assert copied.json()["record_count"] == COUNT

    profiled = run("profile", log, "--json")
    assert profiled.json()["total"]["record_count"] == COUNT
    lines = run("profile", log).out.splitlines()
    assert lines[0].split("\t")[:3] == ["stream", "segment", "records"]
    assert lines[1].split("\t")[:3] == ["events", "0", "400"]
    assert lines[3].split("\t")[:2] == ["2023-11-14T22:00:00.000Z", "400"]
    assert lines[-1] == "400 records, 19.7 KiB in 1 segment and 1 hour"


def test_damage_has_exit_code_five(run: Any, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", COUNT)
    file, byte = place_of(log, 123)
    damage(log, [123])

    found = run("verify", log)
    assert found.code == 5
    header, row, verdict = found.out.splitlines()
    assert header == "stream\trecords\tfile\tbyte\twhat"
    assert row.split("\t")[:4] == ["events", "record 123", file.name, str(byte)]
    assert verdict == (
        "damaged: 1 record unreadable, in 1 split; 399 records of 1 log in 1 split intact"
    )
    assert [
        (d["start"], d["end"], d["byte"]) for d in run("verify", log, "--json").json()["damages"]
    ] == [(123, 124, byte)]

    copied = run("copy", log, tmp_path / "copy", "--json")
    error = json.loads(copied.err.splitlines()[-1])["error"]
    assert (copied.code, error["kind"], error["path"], error["offset"]) == (
        5,
        "corrupt",
        str(file),
        byte,
    )

    exported = run("export", log, tmp_path / "out")
    assert exported.code == 4
    assert "the job failed: " in exported.err
    assert "record 123 is affected" in exported.err
