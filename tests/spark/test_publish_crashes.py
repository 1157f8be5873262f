"""A driver that dies anywhere, also twice, and a disk that forgets what nobody synced."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from aof2.spark.commits import Txn
from aof2.spark.write.publish import Publisher
from sink_support import (
    Crash,
    ForgetfulFiles,
    SteppedFiles,
    Template,
    assert_once,
    crash_at,
    record_states,
    visible_rows,
)
from support import HERE, child_env

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aof2.spark.files import Files


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Template]:
    directory = tmp_path_factory.mktemp("templates")
    return [
        Template.make(directory, [b"row %d of part %d" % (r, i) for r in (0, 1)]) for i in range(3)
    ]


class Write:
    """A write of two parts to a target that had one; it can be tried again and again."""

    def __init__(self, target: Path, parts: list[Template], *, overwrite: bool) -> None:
        self.target = target
        self.overwrite = overwrite
        self._old, *self._new = parts
        Publisher(target, files=SteppedFiles()).publish(
            [self._old.stage(target)], txn=Txn("earlier", 0)
        )
        self.old = sorted(self._old.rows)
        new = [row for part in self._new for row in part.rows]
        self.new = sorted(new if overwrite else [*self.old, *new])

    def attempt(self, files: Files) -> None:
        staged = [part.stage(self.target) for part in self._new]
        Publisher(self.target, files=files).publish(
            staged, txn=Txn("app", 7), overwrite=self.overwrite
        )

    def crashes(self, files: Files) -> bool:
        try:
            self.attempt(files)
        except Crash:
            return True
        return False

    def replay(self) -> None:
        """What Spark does after a restart; no step is left over then."""
        self.attempt(SteppedFiles())
        assert_once(self.target, self.new)
        assert set(record_states(self.target)) == {"done"}

    def assert_whole(self) -> None:
        assert visible_rows(self.target) in (self.old, self.new)


@pytest.fixture(params=["append", "overwrite"])
def writes(
    request: pytest.FixtureRequest, tmp_path: Path, parts: list[Template]
) -> Iterator[Write]:
    def fresh() -> Iterator[Write]:
        for number in range(100_000):
            yield Write(tmp_path / str(number), parts, overwrite=request.param == "overwrite")

    return fresh()


def test_a_driver_that_dies_at_any_step_and_replays_leaves_each_row_once(
    writes: Iterator[Write],
) -> None:
    for step, write in enumerate(writes):
        crashed = write.crashes(crash_at(step))
        write.assert_whole()
        write.replay()
        if not crashed:
            assert step > 10
            return


def test_a_driver_that_dies_while_it_recovers_recovers_the_next_time(
    writes: Iterator[Write],
) -> None:
    first = 0
    while True:
        second = 0
        while True:
            write = next(writes)
            if not write.crashes(crash_at(first)):
                return
            crashed_again = write.crashes(crash_at(second))
            write.assert_whole()
            write.replay()
            if not crashed_again:
                break
            # Every third pair; which ones differs from first to first.
            second += 1 if second == 0 else 3
        first += 1


def test_a_power_cut_at_any_step_leaves_each_row_once(writes: Iterator[Write]) -> None:
    """What was not synced is gone, or there, or some of it is."""
    step, cuts = 0, 0
    while True:
        for seed in range(4):
            write = next(writes)
            files = ForgetfulFiles(crash_at(step)._before)
            crashed = write.crashes(files)
            chance = random.Random(step * 10 + seed)
            cuts += files.cut_power(lambda seed=seed, chance=chance: chance.random() < seed / 4)
            write.assert_whole()
            if not crashed:
                assert visible_rows(write.target) == write.new, "publish returned"
            write.replay()
        if not crashed:
            assert cuts > 0
            return
        step += 1


def test_a_power_cut_during_recovery_leaves_each_row_once(writes: Iterator[Write]) -> None:
    first = 0
    while True:
        for second in range(first % 2, 30, 2):
            write = next(writes)
            files = ForgetfulFiles(crash_at(first)._before)
            if not write.crashes(files):
                return
            files.restart(crash_at(second)._before)
            crashed_again = write.crashes(files)
            files.cut_power()
            write.assert_whole()
            write.replay()
            if not crashed_again:
                break
        first += 1


def test_a_power_cut_long_after_a_commit_does_not_bring_anything_back(
    tmp_path: Path, parts: list[Template]
) -> None:
    """Later commits sync their own directories; what an earlier one left open may go."""
    for step in range(1000):
        target = tmp_path / str(step)
        files = ForgetfulFiles()
        Publisher(target, files=files).publish([parts[0].stage(target)], txn=Txn("a", 0))
        Publisher(target, files=files).publish(
            [parts[1].stage(target)], txn=Txn("b", 0), overwrite=True
        )
        files.restart(crash_at(step)._before)
        crashed = True
        try:
            Publisher(target, files=files).publish([parts[2].stage(target)], txn=Txn("c", 0))
            crashed = False
        except Crash:
            pass
        files.cut_power()
        for app, part in (("a", 0), ("b", 1), ("c", 2)):
            staged = [parts[part].stage(target)]
            Publisher(target, files=SteppedFiles()).publish(
                staged, txn=Txn(app, 0), overwrite=app == "b"
            )
        assert_once(target, [*parts[1].rows, *parts[2].rows])
        if not crashed:
            return


def test_sigkill_at_any_step_and_a_replay_leave_each_row_once(tmp_path: Path) -> None:
    """Real processes: the kernel releases the lock, the page cache keeps the rest."""
    run = subprocess.run(
        [sys.executable, HERE / "programs" / "kill_publisher.py", tmp_path],
        env=child_env(),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    killed = [line for line in run.stdout.splitlines() if line.startswith("killed before")]
    assert len(killed) > 10, run.stdout
    assert run.stdout.splitlines()[-1] == "not killed"
