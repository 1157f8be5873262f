"""One publisher at a time: the others wait, or say who is in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from aof2.spark.commits import Txn
from aof2.spark.write.publish import Publisher
from aof2.spark.write.publish_lock import PublishLocked, publish_lock
from sink_support import Template, assert_once, record_states
from support import HERE, child_env

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    Publisher(tmp_path / "t").publish([])
    return tmp_path / "t"


class Waiting:
    """A clock that only moves by waiting, and what happens meanwhile."""

    def __init__(self, at_pause: dict[int, object]) -> None:
        self.now_s = 0.0
        self.pauses = 0
        self._at_pause = at_pause

    def clock(self) -> float:
        return self.now_s

    def pause(self, seconds: float) -> None:
        self.pauses += 1
        self.now_s += seconds
        action = self._at_pause.get(self.pauses)
        if callable(action):
            action()


def test_who_waits_gets_the_lock_when_it_is_released(target: Path) -> None:
    holder = publish_lock(target, 0)
    holder.__enter__()
    waiting = Waiting({3: lambda: holder.__exit__(None, None, None)})
    with publish_lock(target, 60, pause=waiting.pause, clock=waiting.clock):
        assert waiting.pauses == 3


def test_who_waits_too_long_learns_who_holds_the_lock(target: Path) -> None:
    waiting = Waiting({})
    with (
        publish_lock(target, 0),
        pytest.raises(PublishLocked, match=rf"process {os.getpid()} on .*lockTimeout") as failed,
        publish_lock(target, 5, pause=waiting.pause, clock=waiting.clock),
    ):
        raise AssertionError("two publishers at once")
    assert 5 <= waiting.now_s < 6
    assert failed.value.path == str(target / "_aof2_commits" / "lock")
    with publish_lock(target, 0):
        """It is free again."""


def test_a_publisher_does_nothing_without_the_lock(target: Path, tmp_path: Path) -> None:
    part = Template.make(tmp_path, [b"1"])
    staged = part.stage(target)
    with publish_lock(target, 0):
        with pytest.raises(PublishLocked):
            Publisher(target, lock_timeout_s=0).publish([staged])
        Publisher(target, staging_max_age_s=-1).collect()
    assert staged.path.exists()
    assert_once(target, [])


def test_the_lock_of_another_process_ends_when_that_is_killed(target: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from aof2.spark.write.publish_lock import publish_lock\n"
        "with publish_lock(Path(sys.argv[1]), 0): print('held', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, target],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=child_env(),
        cwd=HERE,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(PublishLocked, match=f"process {child.pid}"), publish_lock(target, 0):
            raise AssertionError("two publishers at once")
        child.send_signal(signal.SIGKILL)
        child.wait()
    with publish_lock(target, 0):
        """Nobody has to clean up."""


def test_drivers_that_publish_at_the_same_time_all_succeed_once(
    tmp_path: Path,
) -> None:
    """Half of them replay what the others do."""
    target = tmp_path / "t"
    parts = [Template.make(tmp_path, [b"row %d" % i]) for i in range(6)]

    def publish(number: int) -> str:
        part = parts[number % len(parts)]
        return Publisher(target, lock_timeout_s=300).publish(
            [part.stage(target)], txn=Txn(f"app {number % len(parts)}", 0)
        )

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(publish, range(12)))
    assert sorted(outcomes) == ["published"] * 6 + ["replayed"] * 6
    assert_once(target, [b"row %d" % i for i in range(6)])
    assert record_states(target) == ["done"] * 6
    numbers = sorted(p.name.split("-")[0] for p in (target / "_aof2_commits").glob("*.done"))
    assert numbers == [f"{number:020}" for number in range(6)]
