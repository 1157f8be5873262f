"""Logs to look at."""

from pathlib import Path

import pytest
from cli_support import make_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Six records in three segments, the last one unsealed."""
    payloads = [
        b"first",
        "grün, två, три".encode(),
        b"\x00\x01binary\xff",
        b'{"level": "warn", "text": "line\\nbreak"}',
        b"two\nlines",
        b"last",
    ]
    return make_log(tmp_path / "events", payloads, seal_after=(1, 3))
