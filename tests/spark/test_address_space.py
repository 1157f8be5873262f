"""`spark.executor.pyspark.memory` limits what a worker maps, not how much it reads."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import aof2
import pytest
from support import HERE, run_child, write_log

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT_BYTES = 32 << 20
RECORD_BYTES = 64 << 10


@pytest.mark.skipif(sys.platform != "linux", reason="the program reads /proc")
def test_a_log_is_read_by_a_worker_that_cannot_map_all_of_it(tmp_path: Path) -> None:
    """Segments stay mapped for the next reader: a worker ran out of addresses after a few."""
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
    size = count * RECORD_BYTES
    assert found.pop("mapped_bytes") < found.pop("room_bytes") < size, "the limit must be felt"
    assert found == {
        "by_batches": size,
        "by_records": size,
        "verified": count,
        "compared": count,
        "by_one_reader": size,
    }
