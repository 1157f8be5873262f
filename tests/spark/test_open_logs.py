"""Readers that a worker keeps: never of another log. For forks see test_fork."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark.open_logs import OpenLogs
from support import write_log

if TYPE_CHECKING:
    from pathlib import Path


def test_a_log_is_opened_once_and_shows_what_is_appended_later(tmp_path: Path) -> None:
    path = str(write_log(tmp_path / "events", 5))
    logs = OpenLogs()

    reader = logs.reader(path)
    write_log(tmp_path / "events", 5, first=5)

    assert logs.reader(path) is reader
    assert reader.watermarks().durable == 10


def test_a_log_in_the_place_of_another_is_opened_anew(tmp_path: Path) -> None:
    path = write_log(tmp_path / "events", 5)
    logs = OpenLogs()
    assert logs.reader(str(path)).watermarks().durable == 5

    shutil.rmtree(path)
    with pytest.raises(aof2.NotALog):
        logs.reader(str(path))
    write_log(path, 3)

    assert logs.reader(str(path)).watermarks().durable == 3


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    paths = [str(write_log(tmp_path / name, 1)) for name in "abc"]
    logs = OpenLogs(kept_max=2)
    first = logs.reader(paths[0])
    logs.reader(paths[1])
    assert logs.reader(paths[0]) is first

    logs.reader(paths[2])

    assert len(logs) == 2
    assert logs.reader(paths[0]) is first
    logs.clear()
    assert len(logs) == 0


def test_a_scan_survives_the_reader_that_was_let_go(tmp_path: Path) -> None:
    path = str(write_log(tmp_path / "events", 100))
    logs = OpenLogs()
    scan = logs.reader(path).scan()
    next(scan)

    logs.clear()

    assert sum(1 for _ in scan) == 99
