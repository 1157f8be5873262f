"""``pipelines.copy``: record for record the same, in other segments, or nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark import InvalidOption, pipelines
from aof2.spark.pipelines.copy import job
from aof2.spark.pipelines.copy.appending import Staged
from aof2.spark.pipelines.copy.comparing import Pair, compare
from aof2.spark.pipelines.copy.target import Place, Ready, publish
from aof2.spark.pipelines.planning import find_wanted
from aof2.spark.read.splits import Piece
from aof2.spark.write.publish import TargetExists
from pipelines_support import (
    Plain,
    assert_complete,
    damage,
    place_of,
    plain_records,
    write_flagged,
)
from support import write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 2_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flagged(tmp_path_factory.mktemp("copy") / "events", COUNT)


def test_a_copy_is_record_for_record_the_same_in_other_segments(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    told: list[pipelines.Progress] = []
    target = tmp_path / "copies" / "events"
    report = pipelines.copy(
        log,
        target,
        spark=spark,
        segment_bytes=128 << 10,
        progress=told.append,
        minPartitions=3,
        batchBytes=4_000,
    )

    records = plain_records(log)
    assert plain_records(target) == records
    with aof2.open(log) as old, aof2.open(target) as new:
        assert (new.name, new.format) == (old.name, "full")
        sizes = {segment.file_bytes for segment in new.segments()}
        assert sizes == {128 << 10}
        used = [segment for segment in new.segments() if segment.record_count]
        assert 1 < len(used) < len(old.segments())
        assert all(segment.is_sealed for segment in used)
        assert new.closed_cleanly
    assert aof2.verify(target).problems == []
    payload_bytes = sum(len(record.payload) for record in records)
    assert report.to_dict() == {
        "path": str(log),
        "target": str(target),
        "record_count": COUNT,
        "payload_bytes": payload_bytes,
        "streams": [
            {
                "stream": "events",
                "path": str(target),
                "start": 0,
                "end": COUNT,
                "record_count": COUNT,
                "payload_bytes": payload_bytes,
                "segment_count": len(used),
                "missing": 0,
            }
        ],
    }
    assert_complete(told, "copy", "compare")
    assert {state.unit for state in told if state.step == "copy"} == {"records"}
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["events"]


def test_a_directory_of_logs_becomes_a_directory_of_copies(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "logs"
    write_log(source / "2026" / "a", 30)
    write_log(source / "b", 40, format="compact")
    write_log(source / "empty", 0)
    damage(source / "b", [12], at=20)
    aof2.repair(source / "b")

    report = pipelines.copy(source, tmp_path / "copies", spark=spark, start=10)

    assert [(s.stream, s.record_count, s.missing) for s in report.streams] == [
        ("2026/a", 20, 0),
        ("b", 29, 1),
        ("empty", 0, 0),
    ]
    assert plain_records(tmp_path / "copies" / "empty") == []
    for name in ("2026/a", "b"):
        copied = plain_records(tmp_path / "copies" / name)
        assert copied == [
            r for r in plain_records(source / name) if r.timestamp_ms >= _moment_ms(10)
        ]
        with aof2.open(tmp_path / "copies" / name) as new, aof2.open(source / name) as old:
            assert new.format == old.format
            assert [record.offset for record in new.scan()] == list(range(len(copied)))


def _moment_ms(offset: int) -> int:
    from support import FIRST_MS

    return FIRST_MS + offset * 1_000


def test_damage_leaves_no_copy(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 500)
    place = place_of(log, 321)
    damage(log, [321])

    with pytest.raises(aof2.Corrupt, match="record 321 is affected") as failed:
        pipelines.copy(log, tmp_path / "copy", spark=spark)
    assert (failed.value.path, failed.value.offset) == (str(place[0]), place[1])
    assert [path.name for path in tmp_path.iterdir()] == ["events"]

    report = pipelines.copy(log, tmp_path / "copy", spark=spark, onCorruption="skip")
    assert (report.record_count, report.streams[0].missing) == (499, 1)
    assert len(plain_records(tmp_path / "copy")) == 499


def test_the_compact_layout_is_refused_to_records_with_flags(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidOption, match="record 1 of stream 'events' has flags 1"):
        pipelines.copy(log, tmp_path / "copy", spark=spark, format="compact")
    report = pipelines.copy(log, tmp_path / "copy", spark=spark, format="compact", end=1)
    assert plain_records(tmp_path / "copy") == plain_records(log)[:1]
    assert report.record_count == 1
    with aof2.open(tmp_path / "copy") as new:
        assert new.format == "compact"


def test_an_existing_target_is_refused_before_anything_runs(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise AssertionError("a session was started")

    monkeypatch.setattr(job, "running", refuse)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").write_text("mine")
    for target in (log, tmp_path / "full", tmp_path / "full" / "note.txt"):
        with pytest.raises(TargetExists, match="a copy replaces nothing") as failed:
            pipelines.copy(log, target)
        assert failed.value.filename == str(target)
    with pytest.raises(aof2.NotALog):
        pipelines.copy(tmp_path / "nowhere", tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_a_target_that_comes_to_be_meanwhile_is_not_replaced(log: Path, tmp_path: Path) -> None:
    wanted = find_wanted(None, log)
    place = Place.of(tmp_path / "copy", wanted, is_here=True)
    staged = write_log(place.attempts / "one", 3)
    write_log(tmp_path / "copy", 5)

    ready = Ready(place, (Staged(wanted.ranges[0], str(staged), 3, 0, 1, ()),))
    with pytest.raises(TargetExists, match="came to be meanwhile"):
        publish(ready)
    assert len(plain_records(tmp_path / "copy")) == 5


@pytest.mark.parametrize(
    "change", ["timestamp_ms", "flags", "payload", "missing", "short", "nothing"]
)
def test_a_copy_that_is_not_the_same_is_found_out(log: Path, tmp_path: Path, change: str) -> None:
    records = plain_records(log)
    victim = records[777]
    changed = {
        "timestamp_ms": victim._replace(timestamp_ms=victim.timestamp_ms + 1),
        "flags": victim._replace(flags=victim.flags ^ 2),
        "payload": victim._replace(payload=victim.payload[:-1] + b"?"),
        "short": victim,
        "nothing": victim,
    }
    copied = [*records[:777], *_some(changed.get(change)), *records[778:]]
    copied = copied[:-1] if change == "short" else copied
    _write(tmp_path / "copy", copied)

    wanted = find_wanted(None, log, options={"batchBytes": 5_000})
    (whole,) = wanted.ranges
    pair = Pair(whole, Piece("events", str(tmp_path / "copy"), 0, len(copied)), wanted.options)
    if change == "nothing":
        assert compare(pair) == COUNT
        return
    with pytest.raises(pipelines.CopyFailed, match="was not kept"):
        compare(pair)


def _some(record: Plain | None) -> list[Plain]:
    return [] if record is None else [record]


def _write(path: Path, records: list[Plain]) -> None:
    with aof2.Aof.open(path) as log:
        for record in records:
            log.append(record.payload, timestamp_ms=record.timestamp_ms, flags=record.flags)
