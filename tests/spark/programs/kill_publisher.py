"""Publishes in child processes that kill themselves at one step each, then replays.

Single-threaded and without Spark, so that forking is safe.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from aof2.spark.commits import Txn
from aof2.spark.files import Files
from aof2.spark.write.publish import Publisher
from sink_support import SteppedFiles, Template, assert_once, record_states, visible_rows


class SuicidalFiles(SteppedFiles):
    """Real syncs, and SIGKILL before one step."""

    def __init__(self, step: int) -> None:
        super().__init__(lambda at, what: self._maybe(at, what, step))

    def _maybe(self, at: int, what: str, step: int) -> None:
        if at == step:
            print(f"killed before step {at}: {what}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        Files.sync_directory(self, path)


def publish(target: Path, parts: list[Template], files: Files) -> None:
    staged = [part.stage(target) for part in parts]
    Publisher(target, files=files).publish(staged, txn=Txn("app", 1), overwrite=True)


def main(directory: Path) -> None:
    templates = [Template.make(directory, [b"row %d" % i]) for i in range(3)]
    old, new = templates[:1], templates[1:]
    for step in range(1000):
        target = directory / str(step)
        Publisher(target).publish([old[0].stage(target)], txn=Txn("app", 0))
        pid = os.fork()
        if pid == 0:
            publish(target, new, SuicidalFiles(step))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        expected = sorted(row for part in new for row in part.rows)
        assert visible_rows(target) in ([*old[0].rows], expected)
        publish(target, new, Files())
        assert_once(target, expected)
        assert set(record_states(target)) == {"done"}
        if not os.WIFSIGNALED(status):
            assert status == 0
            print("not killed")
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
