"""Tests pass however they were started: in the background, by a launcher that blocks signals."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support import run_program

TESTS = Path(__file__).parents[1]
FOLDERS = sorted({path.parent.name for path in TESTS.glob("*/test_*.py")})

PROGRAM = """
    import contextlib, io, signal, subprocess, sys
    import pytest

    signals = [signal.SIGINT, signal.SIGTERM]
    for number in signals:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        # What every run of this folder begins with, and none of its tests.
        code = pytest.main([sys.argv[1], "--collect-only", "--ignore-glob=*/test_*.py"])
    assert code == pytest.ExitCode.NO_TESTS_COLLECTED, said.getvalue()
    for number in signals:
        die = f"import os, signal; os.kill(os.getpid(), {number:d})"
        run = subprocess.run([sys.executable, "-c", die], stderr=subprocess.DEVNULL, timeout=60)
        print(run.returncode)
"""


@pytest.mark.parametrize("folder", FOLDERS)
def test_signals_that_the_launcher_ignores_or_blocks_end_what_tests_start(folder: str) -> None:
    expected = [str(-signal.SIGINT), str(-signal.SIGTERM)]
    assert run_program(PROGRAM, TESTS / folder) == expected
