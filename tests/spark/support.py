"""Logs to read, and processes to run beside the tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
from hypothesis import HealthCheck, settings
from slow_machines import PATIENT_CONF, TOO_SLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

#: Small and local: no UI, no name lookups, few partitions.
SESSION_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.pollingDelay": "50ms",
    **PATIENT_CONF,
    # Tests are short: less compiling, one thread of garbage collection.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

#: Long enough for a machine that does ten other things.
DEADLINE_S = 300.0

#: Property tests that do not depend on how fast the machine is, and leave no files.
steady = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))

FIRST_MS = 1_700_000_000_000


def payload(offset: int) -> bytes:
    """What a record of the tests says; the lengths differ."""
    return b"%d:" % offset + b"x" * (offset % 97)


def write_log(
    path: Path, count: int, *, first: int = 0, segment_bytes: int = 64 << 10, **options: Any
) -> Path:
    """Append records whose payload and timestamp tell their offset."""
    with aof2.Aof.open(path, segment_bytes=segment_bytes, **options) as log:
        for offset in range(first, first + count):
            log.append(payload(offset), timestamp_ms=FIRST_MS + offset * 1_000)
        log.flush()
    return path


def seconds(offset: int) -> str:
    """The moment of a record, as the options take it."""
    return str(FIRST_MS + offset * 1_000)


def wait_until(what: str, condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition, and say which one it was if it never comes."""
    deadline = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {deadline_s:.0f} s for: {what}")
        time.sleep(0.05)


def child_env(**more: str) -> dict[str, str]:
    """The environment of a child that runs Spark with this Python."""
    paths = [str(HERE), *[p for p in sys.path if p]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **more}


def run_child(script: Path, *arguments: object, cwd: Path, **env: str) -> str:
    """Run a program to its end and return what it printed."""
    for _ in range(5):
        run = subprocess.run(
            [sys.executable, script, *map(str, arguments)],
            cwd=cwd,
            env=child_env(**env),
            capture_output=True,
            text=True,
            timeout=1_800,
        )
        if not any(reason in run.stderr for reason in (TOO_SLOW, "Address already in use")):
            break
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return run.stdout


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def flip_byte(path: Path, at: int) -> None:
    """Damage a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


def segment_files(log: Path) -> list[Path]:
    """The segments of a log, oldest first."""
    return sorted((log / "segments").glob("*.seg"))


def last_line(error: BaseException) -> str:
    """What a person reads of an error that came out of a Python worker: the line that says it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("aof2.", "ImportError", "ValueError"))]
    return said[-1] if said else lines[-1]


def progress_rows(query: Any) -> list[int]:
    """Rows of each micro-batch that had any."""
    return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]


def offsets_in(batches: Iterator[Any]) -> list[int]:
    """All values of the column offset."""
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]
