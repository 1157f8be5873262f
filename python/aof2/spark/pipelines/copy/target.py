"""Where a copy is made, and how it gets its name: whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aof2
from aof2.spark.files import Files, make_directories
from aof2.spark.streams import local_path
from aof2.spark.write.publish import TargetExists

if TYPE_CHECKING:
    from aof2._types import StrPath
    from aof2.spark.pipelines.copy.appending import Staged
    from aof2.spark.pipelines.planning import Wanted
    from aof2.spark.pipelines.progress import Look


@dataclass(frozen=True)
class Place:
    """Where the copy goes, and where it is made."""

    target: Path
    working: Path
    #: Whether the target is a log, not a directory of logs.
    is_one_log: bool

    @staticmethod
    def of(target: StrPath, wanted: Wanted, *, is_here: bool) -> Place:
        """Choose the place of a copy of what is wanted."""
        text = os.fspath(target)
        path = Path(local_path(text) if is_here else text)
        (source,) = wanted.options.paths
        is_one_log = [each.path for each in wanted.ranges] == [source]
        working = path.with_name(f".{path.name}.copy-{uuid.uuid4().hex[:16]}")
        return Place(path, working, is_one_log)

    @property
    def attempts(self) -> Path:
        """Where tasks write."""
        return self.working / "attempts"

    def log(self, stream: str) -> Path:
        """Return where the copy of a stream will be."""
        return self.target if self.is_one_log else self.target / stream


def refuse_existing(target: Path) -> None:
    """Refuse a target that holds anything."""
    is_empty = target.is_dir() and not any(target.iterdir())
    if os.path.lexists(target) and not is_empty:
        raise _exists(target, "exists already")


def _exists(target: Path, what: str) -> TargetExists:
    error = TargetExists(f"{target} {what}, and a copy replaces nothing; name another target")
    error.filename = str(target)
    return error


def prepare(place: Place) -> None:
    """Make the directory that tasks write below."""
    make_directories(Files(), place.attempts)


@dataclass(frozen=True)
class Ready:
    """A copy that was compared."""

    place: Place
    staged: tuple[Staged, ...]


def publish(ready: Ready) -> None:
    """Give the copy its name. A crash before leaves the working directory only."""
    place, files = ready.place, Files()
    if place.is_one_log:
        whole = Path(ready.staged[0].path)
    else:
        whole = place.working / "logs"
        make_directories(files, whole)
        for each in ready.staged:
            log = whole / each.piece.stream
            make_directories(files, log.parent)
            files.rename(Path(each.path), log)
            files.sync_directory(log.parent)
    try:
        files.rename(whole, place.target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise _exists(place.target, "came to be meanwhile") from error
        raise
    files.sync_directory(place.target.parent)


def remove(place: Place) -> None:
    """Remove what the tasks wrote, if it did not get its name."""
    Files().remove_tree(place.working)


def watch_logs(place: Place, *, is_here: bool) -> Look:
    """Return a function that counts what the tasks have appended so far."""

    def look() -> int | None:
        if not is_here:
            return None
        count = 0
        for log in place.attempts.glob("*"):
            try:
                with aof2.open(log) as reader:
                    count += reader.watermarks().appended
            except (aof2.Error, OSError):
                # It is being made, or was given up.
                continue
        return count

    return look
