"""What publishing does to a directory tree, one method per step.

Publishing promises something about every crash. So each step that can be the last one
goes through here, where a test can count the steps, fail them, or stop at one. Nothing
is decided here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Files:
    """The local filesystem, or a shared one that is mounted like it."""

    def names(self, directory: Path) -> list[str]:
        """Return what a directory holds, sorted; nothing if it is not there."""
        try:
            return sorted(path.name for path in directory.iterdir())
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        """Return whether there is anything of this name."""
        return os.path.lexists(path)

    def read(self, path: Path) -> bytes:
        """Return the bytes of a small file."""
        return path.read_bytes()

    def make_directory(self, path: Path) -> None:
        """Make a directory whose parent is there; fine if it is there. Not durable yet."""
        path.mkdir(exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """Make a file, or replace its bytes, and sync them; its name is not durable yet."""
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """Give another name, in one step that others see whole; not durable yet."""
        source.rename(target)

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable: those that came, and those that went."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file; fine if it is gone."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory and all in it. What cannot be removed stays for the next time."""
        shutil.rmtree(path, ignore_errors=True)

    def last_change_s(self, path: Path) -> float:
        """Return when the newest file or directory below `path` changed, as epoch seconds."""
        newest = path.lstat().st_mtime
        for entry in path.rglob("*"):
            # A task that is still running may have removed it by now.
            with contextlib.suppress(FileNotFoundError):
                newest = max(newest, entry.lstat().st_mtime)
        return newest


def make_directories(files: Files, path: Path) -> None:
    """Make a directory and its missing parents, and make their names durable."""
    if path.is_dir():
        return
    make_directories(files, path.parent)
    files.make_directory(path)
    files.sync_directory(path.parent)
