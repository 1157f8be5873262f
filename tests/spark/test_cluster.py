"""The same on a cluster: executors are processes of their own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support import HERE, payload, run_child, write_log

if TYPE_CHECKING:
    from pathlib import Path


def test_reading_streaming_and_computing_on_two_executors(tmp_path: Path) -> None:
    count = 1_000
    log = write_log(tmp_path / "events", count)

    printed = run_child(HERE / "programs" / "cluster.py", log, tmp_path, cwd=tmp_path)

    found = json.loads(printed.splitlines()[-1])
    size = sum(len(payload(offset)) for offset in range(count))
    assert found == {
        "batch": [count, sum(range(count)), size],
        "map_batches": count,
        "rdd": size,
        "stream": [count, count],
        "written": [2 * count, count],
        "executors": 2,
    }
