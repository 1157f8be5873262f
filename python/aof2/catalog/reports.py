"""What a call found or did."""

from __future__ import annotations

import dataclasses
from typing import Any

from aof2.catalog.operations import OperationId  # noqa: TC001 - sphinx reads the annotations


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogProblem:
    """Two tables that do not agree."""

    table: str
    """The table whose row is wrong."""
    row: str
    """The row, in words."""
    expected: str
    """What the other tables say."""
    found: str
    """What it says."""


@dataclasses.dataclass(frozen=True, slots=True)
class OperationLogReport:
    """What an operation log holds."""

    earliest_generation: int
    """First batch that is there."""
    next_generation: int
    """Behind the last."""
    operations: int
    """Operations in these batches."""
    bytes: int
    """Bytes of these batches."""


@dataclasses.dataclass(frozen=True, slots=True)
class Recovery:
    """What opening a catalog found."""

    source: str
    """Where the tables came from: "tables", "checkpoint" or "log"."""
    checkpoint: int | None
    """Generation of that checkpoint."""
    discarded: str | None
    """Why the tables that were there were not used, if there were any."""
    skipped_checkpoints: list[tuple[int, str]]
    """Checkpoints that could not be used, and why."""
    batches_applied: int
    """Batches of the operation log that were applied."""


@dataclasses.dataclass(frozen=True, slots=True)
class Adopted:
    """Logs that a catalog found in its directory."""

    logs: list[str]
    """Names of those that are new to it."""
    skipped: list[tuple[str, str]]
    """Directories that look like logs and could not be adopted, and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rebuilt:
    """How a catalog was rebuilt."""

    adopted: Adopted
    """The logs that it knows."""
    set_aside: list[str]
    """Files of the old one, by their new names."""
    lost: list[str]
    """What could not come back."""


@dataclasses.dataclass(frozen=True, slots=True)
class RolledForward:
    """How the intents that a crash left were ended."""

    done: list[OperationId]
    """What had been done, or was done now."""
    aborted: list[OperationId]
    """What was given up."""
    failed: list[tuple[OperationId, str]]
    """What could not be ended, and why; it stays open."""


@dataclasses.dataclass(frozen=True, slots=True)
class DroppedSnapshot:
    """A snapshot that went by itself."""

    db_id: int
    """Its database."""
    snapshot_id: int
    """Its number."""
    name: str
    """Its name."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowChange:
    """A row that is not the same in two states."""

    table: str
    """Its table."""
    before: dict[str, Any] | None
    """The row in the first state; None if it was not there."""
    after: dict[str, Any] | None
    """The row in the second state; None if it is not there."""
