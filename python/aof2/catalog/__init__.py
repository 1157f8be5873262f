"""What a catalog says and takes, as plain, immutable values.

`aof2.Catalog` and `aof2.CatalogReader` are the handles; here are the values that they give
and take. The rows of tables have the columns of the tables as their fields, in the same
order; checksums and random ids are numbers.

================  =====================================================
``rows``          rows of tables: `Database`, `Snapshot`, `Job`, …
``parts``         parts of operations: `ObjectName`, `ChunkFields`, …
``operations``    what was decided: `Operation`, `OperationBatch`, …
``reports``       what a call found or did: `Adopted`, `Rebuilt`, …
================  =====================================================
"""

from aof2.catalog.operations import Committed, Operation, OperationBatch, OperationId
from aof2.catalog.parts import ChunkFields, DeltaFields, ObjectName, SegmentRef
from aof2.catalog.reports import (
    Adopted,
    CatalogProblem,
    DroppedSnapshot,
    OperationLogReport,
    Rebuilt,
    Recovery,
    RolledForward,
    RowChange,
)
from aof2.catalog.rows import (
    Chunk,
    Component,
    Database,
    Delta,
    Figure,
    Intent,
    Job,
    Migration,
    Namespace,
    Snapshot,
    WalChunk,
    WalState,
)

__all__ = [
    "Adopted",
    "CatalogProblem",
    "Chunk",
    "ChunkFields",
    "Committed",
    "Component",
    "Database",
    "Delta",
    "DeltaFields",
    "DroppedSnapshot",
    "Figure",
    "Intent",
    "Job",
    "Migration",
    "Namespace",
    "ObjectName",
    "Operation",
    "OperationBatch",
    "OperationId",
    "OperationLogReport",
    "Rebuilt",
    "Recovery",
    "RolledForward",
    "RowChange",
    "SegmentRef",
    "Snapshot",
    "WalChunk",
    "WalState",
]
