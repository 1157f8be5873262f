"""``pipelines.verify``: it finds what the native verify finds, however the log is cut."""

from __future__ import annotations

import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark import pipelines
from aof2.spark.pipelines.planning import find_wanted
from aof2.spark.pipelines.verify.job import _appended, _report
from aof2.spark.pipelines.verify.split import verify_split
from aof2.spark.read.splits import Piece, Split
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines_support import assert_complete, damage, place_of
from support import segment_files, steady, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from aof2._types import Format
    from pyspark.sql import SparkSession

COUNT = 3_000


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same records in both layouts."""
    root = tmp_path_factory.mktemp("verify")
    write_log(root / "full", COUNT)
    write_log(root / "compact", COUNT, format="compact")
    return root


def verified(log: Path, cuts: list[int]) -> pipelines.VerifyReport:
    """Verify a log cut at these offsets, as tasks would, in this process."""
    wanted = find_wanted(None, log)
    (whole,) = wanted.ranges
    bounds = [whole.start, *sorted(set(cuts)), whole.end]
    splits = [Split((Piece(whole.stream, whole.path, a, b),)) for a, b in pairwise(bounds) if a < b]
    return _report(str(log), wanted, {whole.stream: whole.end}, list(map(verify_split, splits)))


def test_a_healthy_log_is_healthy(spark: SparkSession, template: Path) -> None:
    told: list[pipelines.Progress] = []
    report = pipelines.verify(template / "full", spark=spark, progress=told.append, minPartitions=4)
    assert report.to_dict() == {
        "path": str(template / "full"),
        "is_healthy": True,
        "record_count": COUNT,
        "split_count": 4,
        "damaged_split_count": 0,
        "damages": [],
        "streams": [
            {
                "stream": "full",
                "path": str(template / "full"),
                "start": 0,
                "end": COUNT,
                "appended": COUNT,
                "record_count": COUNT,
                "gaps": [],
                "trimmed": 0,
            }
        ],
    }
    assert_complete(told, "verify")


def test_a_flipped_byte_is_found_with_its_file_and_byte(
    spark: SparkSession, template: Path, tmp_path: Path
) -> None:
    log = shutil.copytree(template / "full", tmp_path / "logs" / "full")
    write_log(tmp_path / "logs" / "other", 10)
    places = [place_of(log, offset) for offset in (1_234, 2_999)]
    damage(log, [1_234, 2_999])

    report = pipelines.verify(tmp_path / "logs", spark=spark, minPartitions=8)
    again = pipelines.verify(log, spark=spark, startingOffsets=1_235, endingOffsets=2_999)

    assert not report.is_healthy
    assert [(d.stream, d.start, d.end, d.path, d.byte) for d in report.damages] == [
        ("full", offset, offset + 1, str(file), byte)
        for offset, (file, byte) in zip((1_234, 2_999), places, strict=True)
    ]
    assert all("checksum" in damage.detail for damage in report.damages)
    assert report.damaged_split_count == 2
    assert (again.is_healthy, again.record_count) == (True, 2_999 - 1_235)
    assert [(s.stream, s.record_count) for s in report.streams] == [("full", 2_998), ("other", 10)]


@settings(steady, max_examples=25)
@given(
    broken=st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=8),
    at=st.sampled_from([0, 2, 5, 9, 20, 33]),
    cuts=st.lists(st.integers(0, COUNT), max_size=6),
)
def test_whatever_is_flipped_it_agrees_with_the_native_verify(
    template: Path,
    tmp_path_factory: pytest.TempPathFactory,
    broken: set[int],
    at: int,
    cuts: list[int],
) -> None:
    log = shutil.copytree(template / "full", tmp_path_factory.mktemp("flip") / "full")
    # Splits begin at damage, and just behind it.
    cuts = [*cuts, min(broken), min(max(broken) + 1, COUNT)]
    damage(log, sorted(broken), at=at)
    expected = aof2.verify(log)
    found = verified(log, cuts)

    places = [(p.records[0], p.records[1], p.path, p.offset) for p in expected.problems]
    assert [(d.start, d.end, d.path, d.byte) for d in found.damages] == places
    assert found.record_count == expected.record_count
    shutil.rmtree(log)


@settings(steady, max_examples=10)
@given(
    broken=st.sets(st.integers(0, COUNT - 1), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, COUNT), max_size=6),
)
def test_compact_logs_are_counted_right_whatever_is_flipped(
    template: Path, tmp_path_factory: pytest.TempPathFactory, broken: set[int], cuts: list[int]
) -> None:
    log = shutil.copytree(template / "compact", tmp_path_factory.mktemp("flip") / "compact")
    places = sorted(place_of(log, offset) for offset in broken)
    damage(log, sorted(broken), at=17)
    found = verified(log, [*cuts, min(max(broken) + 1, COUNT)])

    assert found.record_count == COUNT - len(broken)
    unreadable = {offset for d in found.damages for offset in range(d.start, d.end)}
    assert unreadable == broken
    first = {}
    for file, byte in reversed(places):
        first[str(file)] = byte
    # Behind the first damage of a file, compact records do not say which they are.
    assert {(d.path, d.byte) for d in found.damages} >= set(first.items())
    shutil.rmtree(log)


@pytest.mark.parametrize("layout", ["full", "compact"])
@pytest.mark.parametrize("which", [1, -1])
def test_a_missing_segment_is_damage(
    template: Path, tmp_path: Path, layout: Format, which: int
) -> None:
    log = shutil.copytree(template / layout, tmp_path / layout)
    with aof2.open(log) as reader:
        gone = reader.segments()[which]
    segment_files(log)[which].unlink()
    end = gone.first_offset + gone.record_count

    report = verified(log, [gone.first_offset + 3, end - 2, end, end + 1 if end < COUNT else 5])

    assert [(d.start, d.end) for d in report.damages] == [(gone.first_offset, end)]
    assert "missing" in report.damages[0].detail
    assert report.record_count == COUNT - gone.record_count


@pytest.mark.parametrize("layout", ["full", "compact"])
def test_what_a_repair_gave_up_is_no_damage(template: Path, tmp_path: Path, layout: Format) -> None:
    log = shutil.copytree(template / layout, tmp_path / layout)
    damage(log, [100, 2_000], at=20)
    aof2.repair(log)
    damage(log, [102], at=20)

    report = verified(log, [100, 101, 2_000])

    assert [(d.start, d.end) for d in report.damages] == [(102, 103)]
    assert report.streams[0].gaps == ((100, 101), (2_000, 2_001))
    assert report.record_count == COUNT - 3


def test_only_durable_records_are_judged(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", flush_interval_ms=0) as log:
        log.append_many([b"a", b"b"])
        log.flush()
        log.append(b"c")
        wanted = find_wanted(None, tmp_path / "events")
        assert [(each.start, each.end) for each in wanted.ranges] == [(0, 2)]
        report = _report(
            "", wanted, _appended(wanted.ranges), list(map(verify_split, wanted.splits))
        )
    assert (report.record_count, report.streams[0].end, report.streams[0].appended) == (2, 2, 3)


def test_retention_during_the_check_is_no_damage(template: Path, tmp_path: Path) -> None:
    shutil.copytree(template / "full", tmp_path / "full")
    wanted = find_wanted(None, tmp_path / "full")
    with aof2.Aof.open(tmp_path / "full") as log:
        trimmed = log.apply_retention(before_offset=1_000).record_count
    assert trimmed > 0
    report = _report("", wanted, {"full": COUNT}, list(map(verify_split, wanted.splits)))

    assert report.is_healthy
    assert (report.streams[0].trimmed, report.record_count) == (trimmed, COUNT - trimmed)
