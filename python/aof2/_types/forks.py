"""Forks and snapshots of logs, and which log was forked from which."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class ForkedLog:
    """A fork that was made.

    >>> ids = log.append_many([b"a", b"b", b"c"])
    >>> fork = log.fork("trial", at=2)
    >>> fork.name, fork.offset
    ('trial', 2)
    """

    name: str
    """Its name in the root."""
    path: str
    """Its directory."""
    stream_id: int
    """Its id."""
    offset: int
    """The first logical offset that is its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A place of a log that has a name, and stays.

    >>> ids = log.append_many([b"a", b"b", b"c"])
    >>> taken = log.snapshot("before", at=2)
    >>> taken.name, taken.offset, taken.expires_at_ms
    ('before', 2, None)
    """

    name: str
    """Its name."""
    offset: int
    """Logical offset of the first record behind it."""
    created_at_ms: int
    """When it was taken, milliseconds since the epoch."""
    expires_at_ms: int | None
    """When it goes, if it does by itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class LogNode:
    """One log of a root.

    >>> import aof2
    >>> rid = log.append(b"hello")
    >>> fork = log.fork("trial")
    >>> events, trial = aof2.Root(".").tree()
    >>> trial.parent == events.stream_id, trial.parent_name, trial.fork_offset
    (True, 'events', 1)
    """

    name: str
    """Its name in the root."""
    path: str
    """Its directory."""
    stream_id: int
    """Its id."""
    parent: int | None
    """Id of the log that it was forked from, if it still shares records with one."""
    parent_name: str | None
    """What that one was called then."""
    fork_offset: int | None
    """The first logical offset that is its own."""
    depth: int
    """How many logs it shares records of."""
    is_dropped: bool
    """Whether it was dropped, and is there only because others read it."""
    snapshots: list[SnapshotInfo]
    """Its snapshots, by name."""
    holders: list[str]
    """Forks, and snapshots of forks, that read its segments."""


@dataclasses.dataclass(frozen=True, slots=True)
class LogTree:
    """The logs of a root, and which was forked from which. Iterates over them.

    >>> import aof2
    >>> rid = log.append(b"hello")
    >>> fork = log.fork("trial")
    >>> tree = aof2.Root(".").tree()
    >>> [node.name for node in tree], [node.name for node in tree.roots()]
    (['events', 'trial'], ['events'])
    """

    logs: list[LogNode]
    """All of them, parents before their forks."""

    def __iter__(self) -> Iterator[LogNode]:
        return iter(self.logs)

    def __len__(self) -> int:
        return len(self.logs)

    def roots(self) -> list[LogNode]:
        """Return the logs that were forked from no log of the root.

        >>> import aof2
        >>> rid = log.append(b"hello")
        >>> fork = log.fork("trial")
        >>> [node.name for node in aof2.Root(".").tree().roots()]
        ['events']
        """
        known = {node.stream_id for node in self.logs}
        return [node for node in self.logs if node.parent not in known]

    def forks_of(self, stream_id: int) -> list[LogNode]:
        """Return the logs that were forked from this one and still share its records.

        >>> import aof2
        >>> rid = log.append(b"hello")
        >>> fork = log.fork("trial")
        >>> [node.name for node in aof2.Root(".").tree().forks_of(log.stream_id)]
        ['trial']
        """
        return [node for node in self.logs if node.parent == stream_id]


@dataclasses.dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep took away.

    >>> import aof2
    >>> log.close()
    >>> aof2.Root(".").sweep()
    Swept(holds=0, segments=0, directories=0)
    """

    holds: int
    """Holds of forks and snapshots that do not exist."""
    segments: int
    """Segments of dropped logs that nobody reads."""
    directories: int
    """Directories of dropped logs, and of forks that were never finished."""
