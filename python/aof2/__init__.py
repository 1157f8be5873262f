"""An embedded append-only log: write at memory speed, know exactly what is durable.

>>> import aof2
>>> with aof2.Aof.open("data/events") as log:
...     rid = log.append(b"hello")
...     log.flush()
>>> with aof2.open("data/events") as reader:
...     [bytes(record) for record in reader.scan()]
[b'hello']

`Aof.open` opens a log for writing, one process at a time; `open` for reading, in any
process, while a writer may run. `verify` checks every byte, `repair` quarantines damage.
`Manifest` tells what happened to the segments of a log that records it. With `Tiers` a
log keeps a budget of segment files and compresses the rest, or archives everything in an
object store: `open` reads it there, `verify` and `scrub` check it there, `archived` names
what is there, `restore` brings it back.
"""

from collections.abc import Iterator, Sequence

from aof2._aof2 import (
    Aof,
    AofManager,
    AppendedArrow,
    ArrowScan,
    Follow,
    ReadableLog,
    Reader,
    Record,
    RecordId,
    RecordIds,
    Scan,
    Tiers,
    __version__,
    archived,
    cold_location,
    open,
    repair,
    restore,
    scrub,
    verify,
)
from aof2._errors import (
    Closed,
    ColdError,
    Corrupt,
    Error,
    ForeignFile,
    ForkedHandle,
    InvalidConfig,
    InvalidRecord,
    IoError,
    LastCopy,
    Locked,
    NotALog,
    PastEnd,
    Poisoned,
    RecordNotFound,
    SegmentNotFound,
    Timeout,
    Trimmed,
    WouldBlock,
)
from aof2._manifest import Manifest
from aof2._manifest_types import (
    Divergence,
    ManifestChunk,
    ManifestIndex,
    ManifestProblem,
    ManifestRecord,
    ManifestReport,
    ManifestSegment,
    ManifestSnapshot,
    PendingDelete,
    PendingUpload,
)
from aof2._types import (
    ColdLocation,
    ColdStatus,
    LostRange,
    MissingSegment,
    Problem,
    RepairReport,
    RestoreProgress,
    RestoreReport,
    RetentionReport,
    ScrubFinding,
    ScrubProgress,
    ScrubReport,
    ScrubUnreached,
    Segment,
    SegmentCheck,
    TierMetrics,
    TierStatus,
    VerifyProgress,
    VerifyReport,
    Watermarks,
)

Sequence.register(RecordIds)
Iterator.register(Scan)
Iterator.register(Follow)

__all__ = [
    "Aof",
    "AofManager",
    "AppendedArrow",
    "ArrowScan",
    "Closed",
    "ColdError",
    "ColdLocation",
    "ColdStatus",
    "Corrupt",
    "Divergence",
    "Error",
    "Follow",
    "ForeignFile",
    "ForkedHandle",
    "InvalidConfig",
    "InvalidRecord",
    "IoError",
    "LastCopy",
    "Locked",
    "LostRange",
    "Manifest",
    "ManifestChunk",
    "ManifestIndex",
    "ManifestProblem",
    "ManifestRecord",
    "ManifestReport",
    "ManifestSegment",
    "ManifestSnapshot",
    "MissingSegment",
    "NotALog",
    "PastEnd",
    "PendingDelete",
    "PendingUpload",
    "Poisoned",
    "Problem",
    "ReadableLog",
    "Reader",
    "Record",
    "RecordId",
    "RecordIds",
    "RecordNotFound",
    "RepairReport",
    "RestoreProgress",
    "RestoreReport",
    "RetentionReport",
    "Scan",
    "ScrubFinding",
    "ScrubProgress",
    "ScrubReport",
    "ScrubUnreached",
    "Segment",
    "SegmentCheck",
    "SegmentNotFound",
    "TierMetrics",
    "TierStatus",
    "Tiers",
    "Timeout",
    "Trimmed",
    "VerifyProgress",
    "VerifyReport",
    "Watermarks",
    "WouldBlock",
    "__version__",
    "archived",
    "cold_location",
    "open",
    "repair",
    "restore",
    "scrub",
    "verify",
]
