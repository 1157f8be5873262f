"""`spark.executor.pyspark.memory` limits what a worker may map, not how much it may read."""

from __future__ import annotations

import json
import resource
import sys
from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark import address_space
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.splits import Piece
from support import HERE, run_child, write_log

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT_BYTES = 32 << 20
RECORD_BYTES = 64 << 10


@pytest.mark.skipif(sys.platform != "linux", reason="the program reads /proc")
def test_a_log_is_read_by_a_worker_that_cannot_map_all_of_it(tmp_path: Path) -> None:
    """A reader keeps segments mapped: a reused worker ran out of addresses after a few."""
    log = tmp_path / "events"
    count = 10 * SEGMENT_BYTES // RECORD_BYTES
    with aof2.Aof.open(log, segment_bytes=SEGMENT_BYTES) as writer:
        for _ in range(count // 100):
            writer.append_many([bytes(RECORD_BYTES)] * 100)
        writer.seal()
    count = count // 100 * 100
    small = write_log(tmp_path / "small", 10)

    printed = run_child(HERE / "programs" / "limited_reader.py", log, small, cwd=tmp_path)

    found = json.loads(printed.splitlines()[-1])
    assert "map segment" in found.pop("by_one_reader"), "the limit must be felt"
    size = count * RECORD_BYTES
    assert found == {
        "by_batches": size,
        "by_records": size,
        "verified": count,
        "compared": count,
    }


def test_pieces_that_fit_cover_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "events", 3_000)
    piece = Piece("events", str(log), 100, 2_900)
    assert list(address_space.fitting([piece])) == [piece]

    monkeypatch.setattr(address_space, "is_limited", lambda: True)
    parts = list(address_space.fitting([piece]))

    with aof2.open(log) as reader:
        bounds = [s.first_offset for s in reader.segments() if 100 < s.first_offset < 2_900]
    assert len(bounds) > 1
    assert [part.start for part in parts] == [100, *bounds]
    assert [part.end for part in parts] == [*bounds, 2_900]
    kept = OPEN_LOGS.reader(str(log))
    address_space.let_go(str(log))
    assert OPEN_LOGS.reader(str(log)) is not kept


def test_a_limit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, is_limited in ((1 << 40, True), (resource.RLIM_INFINITY, False)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, found=limit: (found, found))
        assert address_space.is_limited() is is_limited
