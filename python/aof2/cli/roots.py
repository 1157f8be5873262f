"""Roots: the directories that logs and their forks are in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aof2.cli.errors import usage
from aof2.cli.handles import is_address, open_reader
from aof2.cli.options import LOG_PATH, START
from aof2.cli.times import TIME_HELP, iso_ms, time_text

if TYPE_CHECKING:
    from datetime import datetime

    from aof2 import RecordId, Root, SnapshotInfo
    from aof2._types import StartLike

F = TypeVar("F", bound=Callable[..., Any])


def root_argument(function: F) -> F:
    """Add the directory of a root."""
    return click.argument("root", type=LOG_PATH, metavar="ROOT")(function)


def root_option(function: F) -> F:
    """Add ``--root``."""
    return click.option(
        "--root",
        type=LOG_PATH,
        metavar="DIR",
        help="The directory of the logs. [default: the one that LOG is in]",
    )(function)


def at_option(function: F) -> F:
    """Add ``--at``."""
    return click.option(
        "--at",
        type=START,
        metavar="POSITION",
        help=f"Before this offset (1200), record id (3:64), earliest, latest, or time: "
        f"{TIME_HELP}. [default: the end of what is durable]",
    )(function)


def open_root(path: str) -> "Root":
    """Open the root in this directory."""
    import aof2

    refuse_bucket(path)
    return aof2.Root(path)


@dataclass(frozen=True)
class LogInRoot:
    """A log, by its name in a root."""

    root: "Root"
    name: str


def log_in_root(log: str, root: str | None) -> LogInRoot:
    """Find a log in its root: the directory that it is in, if none was named."""
    refuse_bucket(log)
    found = open_root(root if root is not None else str(Path(log).absolute().parent))
    return LogInRoot(found, name_in(found, log))


def name_in(root: "Root", path: str) -> str:
    """Return what the log in this directory, which need not exist, is called in the root."""
    refuse_bucket(path)
    directory = Path(path).absolute()
    directory = directory.parent.resolve() / directory.name
    if (holder := Path(root.dir).resolve()) not in directory.parents:
        raise usage(
            f"{path} is not in the directory {root.dir}",
            "a log and its forks are in one directory; --root names one that holds both",
        )
    return str(directory.relative_to(holder))


def refuse_bucket(path: str) -> None:
    """Fail for an address in an object store."""
    if is_address(path):
        raise usage(
            f"{path} is in an object store, where there are no forks and snapshots yet",
            "aof2 restore brings the log back to a directory",
        )


def place(log: str, at: "StartLike | None") -> "int | RecordId | datetime | None":
    """Return the place that ``--at`` names, as the package takes it."""
    match at:
        case None | "latest":
            return None
        case "earliest":
            with open_reader(log) as reader:
                return reader.earliest_offset()
    return at


def snapshot_object(taken: "SnapshotInfo") -> dict[str, Any]:
    """Make a JSON object of a snapshot."""
    return {
        "name": taken.name,
        "offset": taken.offset,
        "created": iso_ms(taken.created_at_ms),
        "created_at_ms": taken.created_at_ms,
        "expires": iso_ms(taken.expires_at_ms),
        "expires_at_ms": taken.expires_at_ms,
    }


def expiry_text(taken: "SnapshotInfo") -> str:
    """Say until when a snapshot is kept; nothing if it stays."""
    if taken.expires_at_ms is None:
        return ""
    return f", kept until {time_text(taken.expires_at_ms)}"
