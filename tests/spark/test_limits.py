"""Limits of micro-batches."""

from __future__ import annotations

from aof2.spark.read.limits import Patience, records_within, share_out
from aof2.spark.read.splits import Run
from hypothesis import given
from hypothesis import strategies as st
from support import steady

backlogs = st.dictionaries(st.text(max_size=3), st.integers(0, 10_000), max_size=20)


@steady
@given(st.integers(1, 20_000), backlogs)
def test_shares_keep_the_limit_and_starve_nobody(limit: int, backlog: dict[str, int]) -> None:
    shares = share_out(limit, backlog)

    waiting = sum(1 for count in backlog.values() if count)
    assert shares.keys() == backlog.keys()
    assert sum(shares.values()) == min(sum(backlog.values()), max(limit, waiting))
    for key, count in backlog.items():
        assert (1 if count else 0) <= shares[key] <= count


def test_streams_stay_about_equally_far_behind() -> None:
    assert share_out(100, {"busy": 9_000, "quiet": 1_000}) == {"busy": 90, "quiet": 10}


@steady
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 10_000)), min_size=1, max_size=5))
def test_bytes_become_records_and_at_least_one(sizes: list[tuple[int, int]]) -> None:
    runs, offset = [], 0
    for count, size in sizes:
        runs.append(Run("a", "/a", offset, offset + count, size))
        offset += count
    total = sum(run.bytes for run in runs)

    assert records_within(runs, 0) == 1
    assert records_within(runs, total) == offset
    taken = [records_within(runs, limit) for limit in range(0, total + 1, max(total // 50, 1))]
    assert taken == sorted(taken)
    assert all(1 <= count <= offset for count in taken)


def test_patience_waits_for_records_or_for_the_delay() -> None:
    patience = Patience(min_records=100, delay_max_ms=1_000)

    assert not patience.is_over(5, now_ms=0)
    assert not patience.is_over(99, now_ms=999)
    assert patience.is_over(99, now_ms=1_000)
    assert not patience.is_over(99, now_ms=1_999)
    assert patience.is_over(100, now_ms=1_999)
