"""What was decided: the operation log, operation by operation."""

from __future__ import annotations

import dataclasses
import datetime  # noqa: TC003 - sphinx reads the annotations
from typing import Any

from aof2.catalog.parts import SegmentRef  # noqa: TC001 - sphinx reads the annotations


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class OperationId:
    """An operation: the generation of its batch, and its place in the batch.

    >>> from aof2.catalog import OperationId
    >>> str(OperationId(12, 0))
    '12.0'
    """

    generation: int
    """Generation of the batch."""
    index: int
    """Place in the batch."""

    def __str__(self) -> str:
        """Return both, in decimal."""
        return f"{self.generation}.{self.index}"


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """Who decided what, and when."""

    id: OperationId
    """Which one it is."""
    type: str
    """What was decided: "RegisterDb", "PublishSnapshot", …"""
    phase: str
    """How far it had got: "done", or "intent", "failed", "aborted" for what changes a
    bucket."""
    actor: str
    """Who decided it."""
    timestamp: datetime.datetime
    """When it was decided."""
    stream_id: int | None
    """The log that it is about, if it is about one."""
    intent: OperationId | None
    """The intent of which this is the outcome."""
    segments: tuple[SegmentRef, ...]
    """Segments that it is about."""
    fields: dict[str, Any]
    """What was decided, by name."""
    term: int
    """Term of the leader that decided it; 0 without a cluster."""
    node_id: int
    """The node that wrote it."""


@dataclasses.dataclass(frozen=True, slots=True)
class OperationBatch:
    """Operations that were decided together: all of them hold, or none."""

    generation: int
    """Its offset in the operation log."""
    operations: list[Operation]
    """The operations, in order."""


@dataclasses.dataclass(frozen=True, slots=True)
class Committed:
    """What was decided, once it is durable."""

    generation: int
    """The batch. A view of this or a later generation shows it."""
    operation_id: OperationId
    """The first operation."""
    value: Any
    """The number of what is new, the id of an intent, or None."""
