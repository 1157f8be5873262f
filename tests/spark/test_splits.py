"""Any plan covers every record of its ranges exactly once, whatever the segments look like."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aof2
import aof2.spark
from aof2.spark.read import splits as splits_module
from aof2.spark.read.ranges import StreamRange
from aof2.spark.read.splits import Piece, Run, Split, SplitSize, cut, record_bytes_for, runs_of
from aof2.spark.streams import Stream
from hypothesis import given
from hypothesis import strategies as st
from support import offsets_in, payload, steady, write_log

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@dataclass(frozen=True)
class FakeSegment:
    first_offset: int
    used_bytes: int


@st.composite
def logs(draw: st.DrawFn) -> tuple[StreamRange, list[FakeSegment]]:
    """A range and segments that may be fewer, more or other than the range suggests."""
    key = draw(st.uuids()).hex
    start = draw(st.integers(0, 10_000))
    end = start + draw(st.integers(0, 5_000))
    firsts = draw(st.lists(st.integers(0, 20_000), unique=True, max_size=8).map(sorted))
    sizes = draw(st.lists(st.integers(0, 1 << 30), min_size=len(firsts), max_size=len(firsts)))
    segments = [FakeSegment(*pair) for pair in zip(firsts, sizes, strict=True)]
    return StreamRange(Stream(key, f"/logs/{key}"), start, end), segments


sizes = st.builds(
    SplitSize,
    bytes_max=st.integers(1, 1 << 28),
    count_min=st.none() | st.integers(1, 64),
)


@steady
@given(st.lists(logs(), max_size=6), sizes, st.none() | st.integers(1, 200))
def test_every_offset_is_in_exactly_one_split(
    wanted: list[tuple[StreamRange, list[FakeSegment]]],
    size: SplitSize,
    record_bytes: int | None,
) -> None:
    runs = [
        run
        for range_, segments in wanted
        if range_.start < range_.end
        for run in runs_of(range_, segments, record_bytes)
    ]
    # A tiny split size over a big log would be millions of splits; the plan allows as many.
    total = sum(run.bytes for run in runs)
    size = SplitSize(max(size.bytes_max, total // 500 + 1), size.count_min)

    planned = cut(runs, size)

    covered: dict[str, list[tuple[int, int]]] = {}
    for split in planned:
        assert split.pieces
        for piece in split.pieces:
            assert piece.start < piece.end
            covered.setdefault(piece.path, []).append((piece.start, piece.end))
    for range_, _ in wanted:
        pieces = covered.pop(range_.stream.path, [])
        if range_.start == range_.end:
            assert pieces == []
            continue
        # In order, without gap or overlap, from the first offset to the last.
        assert pieces[0][0] == range_.start
        assert pieces[-1][1] == range_.end
        assert all(left[1] == right[0] for left, right in itertools.pairwise(pieces))
    assert covered == {}


@steady
@given(st.integers(1, 100_000), st.integers(1, 50), sizes)
def test_equal_records_make_equal_splits(count: int, record_bytes: int, size: SplitSize) -> None:
    size = SplitSize(max(size.bytes_max, count * record_bytes // 500 + 1), size.count_min)
    planned = cut([Run("a", "/a", 0, count, count * record_bytes)], size)

    assert len(planned) == min(size.count_for(count * record_bytes), count)
    counts = [split.record_count for split in planned]
    assert max(counts) - min(counts) <= 1
    assert max(counts) * record_bytes < size.bytes_max + 2 * record_bytes


def test_one_big_segment_feeds_many_tasks() -> None:
    planned = cut([Run("a", "/a", 0, 1_000, 1 << 30)], SplitSize(bytes_max=128 << 20))

    assert len(planned) == 8
    assert [split.pieces[0].start for split in planned] == [0, 125, 250, 375, 500, 625, 750, 875]


def test_many_small_streams_share_a_task() -> None:
    runs = [Run(f"s{i}", f"/s{i}", 0, 10, 1 << 20) for i in range(256)]

    planned = cut(runs, SplitSize(bytes_max=128 << 20, count_min=2))

    assert [len(split.pieces) for split in planned] == [128, 128]


def test_segments_of_one_log_are_read_in_one_pass() -> None:
    runs = [Run("a", "/a", i * 10, i * 10 + 10, 1_000) for i in range(20)]

    assert cut(runs, SplitSize(count_min=1)) == [Split((Piece("a", "/a", 0, 200),))]


def test_a_small_range_is_one_split_and_a_larger_one_gets_a_task_per_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(splits_module.os, "cpu_count", lambda: 4)
    size = SplitSize()

    assert size.count_for(1 << 20) == 1
    assert size.count_for(64 << 20) == 4
    assert size.count_for(1 << 30) == 8
    assert SplitSize(count_min=32).count_for(1 << 20) == 32


def test_without_payloads_records_count_and_bytes_do_not() -> None:
    assert record_bytes_for(["offset", "payload"]) is None
    assert record_bytes_for(["offset"]) == splits_module.OFFSET_BYTES
    assert record_bytes_for(["offset", "timestamp"]) == splits_module.HEADER_BYTES


def test_splits_of_a_real_log_read_every_record_once(tmp_path: Path) -> None:
    log = write_log(tmp_path / "events", 3_000)
    with aof2.open(log) as reader:
        assert len(reader.segments()) > 2

    planned = aof2.spark.partitions(log, minPartitions=7)
    planned = pickle.loads(pickle.dumps(planned))

    assert len(planned) == 7
    read = [o for s in planned for o in offsets_in(aof2.spark.read_partition(s, format="arrow"))]
    assert read == list(range(3_000))
    records = [r for s in planned for r in aof2.spark.read_partition(s)]
    assert [bytes(r) for r in records] == [payload(o) for o in range(3_000)]
