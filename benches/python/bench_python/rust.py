"""The Rust core doing the same work, in a process of its own."""

import subprocess
from collections.abc import Callable
from pathlib import Path

from bench_python.work import Work


def contestant(binary: Path, what: str) -> Callable[[Path, Work], float]:
    """Make a contestant that lets `python_bound` do the work and tell its own time."""

    def measure(root: Path, work: Work) -> float:
        command = [str(binary), what, str(root), str(work.record_count), str(work.payload_len)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{binary.name} {what} failed: {done.stderr.strip()}")
        return float(done.stdout)

    return measure
