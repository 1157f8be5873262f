"""Fixtures of all tests, and how random the random ones are.

`AOF2_RANDOM=1` looks for new failures; without it every run tries the same cases.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import aof2
import pytest
from hypothesis import settings
from support import QUIET

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

settings.register_profile(
    "aof2", derandomize="AOF2_RANDOM" not in os.environ, database=None, deadline=None
)
settings.load_profile("aof2")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[aof2.Aof]:
    """A log as anybody opens it."""
    with aof2.Aof.open(tmp_path / "events") as log:
        yield log


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[aof2.Aof]:
    """A log that flushes only when asked."""
    with aof2.Aof.open(tmp_path / "quiet", **QUIET) as log:
        yield log
