"""Filesystems that stop, fail or forget at a chosen step, and staged logs to publish."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow as pa
from aof2.spark.files import Files
from aof2.spark.streams import find_streams
from aof2.spark.write.incoming import Place, StreamRows
from aof2.spark.write.options import WriteOptions
from aof2.spark.write.publish import StagedLog
from aof2.spark.write.staging import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Crash(BaseException):
    """The process ends here: no handler of the code under test may see it."""


def nothing(step: int, what: str) -> None:
    """Let the step be taken."""


class SteppedFiles(Files):
    """Tells of every step before it is taken, and does not wait for the disk."""

    def __init__(self, before: Callable[[int, str], None] = nothing) -> None:
        self._before = before
        self.steps: list[str] = []

    def _step(self, what: str) -> None:
        self.steps.append(what)
        self._before(len(self.steps) - 1, what)

    def make_directory(self, path: Path) -> None:
        self._step(f"make {path.name}")
        super().make_directory(path)

    def write(self, path: Path, data: bytes) -> None:
        self._step(f"write {path.name}")
        path.write_bytes(data)

    def rename(self, source: Path, target: Path) -> None:
        self._step(f"rename {source.name} {target.name}")
        super().rename(source, target)

    def sync_directory(self, path: Path) -> None:
        self._step(f"sync {path.name}")

    def remove(self, path: Path) -> None:
        self._step(f"remove {path.name}")
        super().remove(path)

    def remove_tree(self, path: Path) -> None:
        self._step(f"remove tree {path.name}")
        super().remove_tree(path)


def crash_at(step: int) -> SteppedFiles:
    """Files of a process that dies before its step number `step`."""

    def before(at: int, what: str) -> None:
        if at == step:
            raise Crash(f"before step {at}: {what}")

    return SteppedFiles(before)


def fail_at(step: int, error: OSError) -> SteppedFiles:
    """Files where one step fails; those behind it work again."""

    def before(at: int, what: str) -> None:
        if at == step:
            raise error

    return SteppedFiles(before)


@dataclass
class _Change:
    """A change of names that no sync has covered yet, and how to take it back."""

    #: Syncing any of them covers it: a filesystem with a journal renames in one step.
    directories: tuple[Path, ...]
    undo: Callable[[], None]


class ForgetfulFiles(SteppedFiles):
    """A disk that has lost, after a power cut, the names that nobody synced."""

    def __init__(self, before: Callable[[int, str], None] = nothing) -> None:
        super().__init__(before)
        self._changes: list[_Change] = []

    def make_directory(self, path: Path) -> None:
        is_new = not path.exists()
        super().make_directory(path)
        if is_new:
            self._note(path, lambda: shutil.rmtree(path, ignore_errors=True))

    def write(self, path: Path, data: bytes) -> None:
        undo = _restore(path)
        super().write(path, data)
        self._note(path, undo)

    def rename(self, source: Path, target: Path) -> None:
        restore_target = _restore(target)
        super().rename(source, target)

        def undo() -> None:
            if target.exists():
                target.rename(source)
            elif not source.suffix:
                # Its contents were removed meanwhile, and the name is back.
                source.mkdir(exist_ok=True)
                (source / "stream").write_bytes(b"half removed")
            restore_target()

        self._note(target, undo, source.parent)

    def remove(self, path: Path) -> None:
        undo = _restore(path)
        super().remove(path)
        self._note(path, undo)

    def sync_directory(self, path: Path) -> None:
        super().sync_directory(path)
        self._changes = [change for change in self._changes if path not in change.directories]

    def restart(self, before: Callable[[int, str], None]) -> None:
        """Go on as another process: what nobody synced is still in the cache."""
        self._before = before
        self.steps.clear()

    def cut_power(self, keep: Callable[[], bool] = lambda: False) -> int:
        """Forget the changes that were not synced, but for some that reached the disk."""
        changes, self._changes = self._changes, []
        for change in reversed(changes):
            if not keep():
                change.undo()
        return len(changes)

    def _note(self, path: Path, undo: Callable[[], None], *more: Path) -> None:
        self._changes.append(_Change((path.parent, *more), undo))


def _restore(path: Path) -> Callable[[], None]:
    old = path.read_bytes() if path.is_file() else None

    def undo() -> None:
        if old is not None:
            path.write_bytes(old)
        elif path.is_file():
            path.unlink()

    return undo


def batch(payloads: list[bytes], **columns: Any) -> pa.RecordBatch:
    """Rows as the sink hands them to a log."""
    return pa.record_batch({"payload": pa.array(payloads, pa.binary()), **columns})


def stage(
    target: Path,
    payloads: list[bytes],
    *,
    partition: int = 0,
    attempt: int = 0,
    stream: str | None = None,
    **options: Any,
) -> tuple[StagedLog, ...]:
    """Write rows as a task does."""
    options.setdefault("segment_bytes", 64 << 10)
    with Attempt(WriteOptions(target, **options), partition, attempt) as staging:
        staging.append(Place(partition, 0), StreamRows(stream, batch(payloads)))
        return staging.finish()


@dataclass(frozen=True)
class Template:
    """A log that a task wrote once; copies of it are staged quickly."""

    path: Path
    rows: tuple[bytes, ...]

    @staticmethod
    def make(directory: Path, rows: list[bytes]) -> Template:
        (log,) = stage(directory / "elsewhere", rows)
        return Template(log.path, tuple(rows))

    def stage(self, target: Path) -> StagedLog:
        """Stage a copy, as another attempt of the same task."""
        name = f"part-00000-{uuid.uuid4().hex[:16]}"
        path = target / "_aof2_staging" / f"attempt-{name}" / name
        shutil.copytree(self.path, path)
        return StagedLog(path, len(self.rows), sum(map(len, self.rows)))


def visible_rows(target: Path) -> list[bytes]:
    """All payloads that a reader of the target gets, sorted."""
    if not target.exists():
        return []
    rows: list[bytes] = []
    try:
        streams = find_streams([str(target)])
    except aof2.NotALog:
        return []
    for stream in streams:
        with aof2.open(stream.path) as log:
            rows += [bytes(record) for record in log.scan()]
    return sorted(rows)


def assert_once(target: Path, expected: list[bytes]) -> None:
    """Every row is there, once, and nothing else."""
    assert Counter(visible_rows(target)) == Counter(expected)


def published_logs(target: Path) -> list[Path]:
    """The directories of a target that are not the sink's own."""
    return sorted(path for path in target.iterdir() if not path.name.startswith("_"))


def staged_names(target: Path) -> list[str]:
    """What lies below the staging directory."""
    staging = target / "_aof2_staging"
    return sorted(path.name for path in staging.iterdir()) if staging.exists() else []


def record_states(target: Path) -> list[str]:
    """States of all commit records, oldest first."""
    commits = target / "_aof2_commits"
    return [p.suffix[1:] for p in sorted(commits.iterdir()) if p.name[0].isdigit()]
