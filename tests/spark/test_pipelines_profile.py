"""``pipelines.profile``: the numbers are those that counting one by one gives."""

from __future__ import annotations

import struct
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import aof2
import pytest
from aof2.spark import PackageMismatch, pipelines
from pipelines_support import assert_complete, write_flagged
from support import write_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

COUNT = 1_500
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two streams whose hours overlap."""
    root = tmp_path_factory.mktemp("profile")
    write_flagged(root / "a", COUNT)
    write_flagged(root / "b", 10)
    return root


def counted(records: Sequence[aof2.Record], span_ms: int | None = None) -> dict[str, Any]:
    """The figures of some records, one by one."""
    lengths = [len(record) for record in records]
    moments = [record.timestamp_ms for record in records]
    span_ms = max(moments) - min(moments) if span_ms is None else span_ms
    return {
        "record_count": len(records),
        "payload_bytes": sum(lengths),
        "payload_len_min": min(lengths),
        "payload_len_max": max(lengths),
        "payload_len_mean": sum(lengths) / len(lengths),
        "first_timestamp_ms": min(moments),
        "last_timestamp_ms": max(moments),
        "records_per_s": len(records) * 1000 / span_ms if span_ms else None,
        "bytes_per_s": sum(lengths) * 1000 / span_ms if span_ms else None,
    }


def expected(root: Path, start: int = 0) -> dict[str, Any]:
    segments: dict[tuple[str, int], list[aof2.Record]] = defaultdict(list)
    hours: dict[int, list[aof2.Record]] = defaultdict(list)
    for name in ("a", "b"):
        with aof2.open(root / name) as log:
            for record in log.scan(start):
                segments[name, record.id.segment_index].append(record)
                hours[record.timestamp_ms // HOUR_MS * HOUR_MS].append(record)
    return {
        "path": str(root),
        "total": counted([record for records in segments.values() for record in records]),
        "segments": [
            {**counted(records), "stream": stream, "segment_id": segment}
            for (stream, segment), records in sorted(segments.items())
        ],
        "hours": [
            {**counted(records, HOUR_MS), "hour_ms": hour}
            for hour, records in sorted(hours.items())
        ],
        "plot": None,
    }


def test_the_figures_are_those_of_counting_one_by_one(spark: SparkSession, logs: Path) -> None:
    told: list[pipelines.Progress] = []
    # Small batches and splits that end inside segments and hours.
    report = pipelines.profile(
        logs, spark=spark, start=3, progress=told.append, minPartitions=5, batchBytes=3_000
    )
    assert report.to_dict() == expected(logs, start=3)
    assert len(report.segments) > 2
    assert len(report.hours) > 100
    assert_complete(told, "profile")


def test_a_log_without_records_has_no_figures(spark: SparkSession, tmp_path: Path) -> None:
    report = pipelines.profile(write_log(tmp_path / "empty", 0), spark=spark)
    assert (report.total, report.segments, report.hours) == (None, (), ())


def test_one_record_has_no_rate(spark: SparkSession, tmp_path: Path) -> None:
    report = pipelines.profile(write_log(tmp_path / "one", 1), spark=spark)
    assert report.segments[0].records_per_s is None
    assert report.hours[0].records_per_s == 1 / 3600


def test_a_plot_is_a_png(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = pipelines.profile(logs, spark=spark, plot=tmp_path / "log.png")
    assert report.plot == str(tmp_path / "log.png")
    picture = (tmp_path / "log.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (1_200, 900)
    assert len(picture) > 10_000

    pipelines.profile(write_log(tmp_path / "e", 0), spark=spark, plot=tmp_path / "empty.png")
    assert (tmp_path / "empty.png").read_bytes()[:8] == picture[:8]


def test_marks_of_bytes_are_round() -> None:
    pytest.importorskip("matplotlib")
    from aof2.spark.pipelines.plot import _bytes_text, _mark_bytes
    from matplotlib.figure import Figure

    for top, shown in (
        (1_750, "1.25 KiB"),
        (110, "96 B"),
        (1_000_000_000, "896 MiB"),
        (1.0, "1 B"),
    ):
        axes = Figure().subplots()
        axes.set_ylim(0, top)
        _mark_bytes(axes)
        marks = [mark for mark in axes.get_yticks() if 0 <= mark <= top]
        assert 4 <= len(marks) <= 9
        assert shown in [_bytes_text(mark) for mark in marks]
    assert [_bytes_text(value) for value in (1_000, 1_023, 1_024, 0.5)] == [
        "1000 B",
        "1023 B",
        "1 KiB",
        "0.5 B",
    ]


def test_a_plot_without_matplotlib_says_what_to_install(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    with pytest.raises(PackageMismatch, match=r"pip install 'aof2\[plot\]'"):
        pipelines.profile(logs, plot=tmp_path / "log.png")
