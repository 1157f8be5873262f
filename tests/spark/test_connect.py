"""The same through Spark Connect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import HERE, free_port, run_child, write_log

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")


def test_reading_streaming_and_computing_through_connect(tmp_path: Path) -> None:
    count = 500
    log = write_log(tmp_path / "events", count)

    printed = run_child(HERE / "programs" / "connect.py", log, tmp_path, free_port(), cwd=tmp_path)

    found = json.loads(printed.splitlines()[-1])
    assert found == {
        "session": "pyspark.sql.connect",
        "batch": [count - 10, sum(range(10, count))],
        "subset": ["offset"],
        "map_batches": count,
        "error": True,
        "stream": count,
        "written": [2 * count, count],
    }
