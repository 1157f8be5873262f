"""Which logs a path stands for.

A path is a log, a directory of logs, or a glob of either. Directories whose names start
with ``_`` or ``.`` are passed over, as everywhere in Spark. Where the sink writes, the
streams of a commit appear all at once. An address in an object store is a log, or a prefix
with the logs that were archived there.
"""

from __future__ import annotations

import glob
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from aof2 import NotALog
from aof2.spark.buckets import address, archived_names, is_address
from aof2.spark.commits import COMMITS, visible_names
from aof2.spark.errors import InvalidOption, invalid_value
from aof2.spark.open_logs import OPEN_LOGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import aof2

#: How far below a directory logs are looked for: ``2026/01/31/part-0``.
LEVELS_MAX = 4


@dataclass(frozen=True, order=True)
class Stream:
    """A log and what a query calls it."""

    #: Stays the same as long as the log stays in its place: the name of a log that was
    #: named by itself, otherwise its path below the directory or glob.
    key: str
    path: str

    def reader(self) -> aof2.Reader:
        """Return an open reader, shared by everything in this process."""
        return OPEN_LOGS.reader(self.path)


def find_streams(paths: Sequence[str]) -> list[Stream]:
    """Return the logs that the paths stand for, ordered by key."""
    found: dict[str, Stream] = {}
    for given in paths:
        for stream in _find(place_of(given)):
            other = found.setdefault(stream.key, stream)
            if other.path != stream.path:
                raise InvalidOption(
                    f"both {other.path} and {stream.path} would be stream {stream.key!r}; "
                    "load a directory above them, or each by itself",
                    option="path",
                )
    return sorted(found.values())


def place_of(given: str) -> str:
    """Return where a log is read, the same for all machines: a path, or an address."""
    return address(given) if is_address(given) else local_path(given)


def local_path(given: str) -> str:
    """Return the absolute path, also of a ``file:`` URI.

    Executors start in directories of their own, so a relative path must end here.
    """
    url = urlparse(given)
    if url.scheme == "file":
        given = unquote(url.path)
    elif url.scheme and "://" in given:
        raise invalid_value(
            "path", given, "a path that the driver and all executors see as a directory"
        )
    return str(Path(given).absolute())


def _find(path: str) -> list[Stream]:
    if is_address(path):
        return _archived(path)
    root = Path(path)
    if is_log(root):
        return [Stream(OPEN_LOGS.reader(path).name, path)]
    if root.is_dir():
        streams = [Stream(str(log.relative_to(root)), str(log)) for log in _logs_below(root)]
        if not streams and not (root / COMMITS).is_dir():
            raise NotALog(
                f"{path} is neither an aof2 log nor a directory of logs "
                f"(looked {LEVELS_MAX} levels down)",
                path=path,
            )
        return streams
    if not glob.has_magic(path):
        kind = "is a file, not the directory of a log" if root.exists() else "does not exist"
        raise NotALog(f"{path} {kind} (seen from {socket.gethostname()})", path=path)
    return _matching(path)


def _archived(url: str) -> list[Stream]:
    names = archived_names(url)
    if names:
        return [Stream(name, f"{url}/{name}") for name in names]
    return [Stream(OPEN_LOGS.reader(url).name, url)]


def _matching(pattern: str) -> list[Stream]:
    fixed = Path(*_before_magic(Path(pattern).parts))
    matches = sorted(Path(match) for match in glob.glob(pattern))  # noqa: PTH207 - absolute
    logs = [log for match in matches for log in _logs_at(match, LEVELS_MAX)]
    if not logs:
        raise NotALog(
            f"nothing that matches {pattern} is an aof2 log (seen from {socket.gethostname()})",
            path=pattern,
        )
    return [Stream(str(log.relative_to(fixed)), str(log)) for log in logs]


def _before_magic(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def _logs_at(path: Path, levels: int) -> Iterator[Path]:
    if is_log(path):
        yield path
    elif levels > 0 and path.is_dir():
        yield from _logs_below(path, levels)


def _logs_below(root: Path, levels: int = LEVELS_MAX) -> Iterator[Path]:
    for name in visible_names(str(root)):
        yield from _logs_at(root / name, levels - 1)


def is_log(path: Path) -> bool:
    """Whether a writer got as far as to say what this directory is."""
    if (path / "stream").is_file():
        return True
    return any((path / "segments").glob("*.seg"))
