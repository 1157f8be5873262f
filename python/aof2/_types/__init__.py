"""Figures and reports as plain, immutable values, and the types of arguments.

The native module makes the values, by their names here.
"""

from aof2._types.arguments import (
    Admission,
    EndLike,
    ForkAtLike,
    Format,
    Hydrate,
    KeptReason,
    Level,
    OnCorruption,
    OpenOptions,
    Residency,
    RetentionAction,
    SkipReason,
    StartLike,
    StrPath,
    Visibility,
)
from aof2._types.forks import ForkedLog, LogNode, LogTree, SnapshotInfo, Swept
from aof2._types.log import Segment, SkippedRange, Watermarks
from aof2._types.restore import MissingSegment, RestoreProgress, RestoreReport
from aof2._types.retention import KeptSegment, RetentionReport
from aof2._types.scrub import ScrubFinding, ScrubProgress, ScrubReport, ScrubUnreached
from aof2._types.tiers import ColdLocation, ColdStatus, TierMetrics, TierStatus
from aof2._types.verify import (
    LostRange,
    Problem,
    RepairReport,
    SegmentCheck,
    VerifyProgress,
    VerifyReport,
)

__all__ = [
    "Admission",
    "ColdLocation",
    "ColdStatus",
    "EndLike",
    "ForkAtLike",
    "ForkedLog",
    "Format",
    "Hydrate",
    "KeptReason",
    "KeptSegment",
    "Level",
    "LogNode",
    "LogTree",
    "LostRange",
    "MissingSegment",
    "OnCorruption",
    "OpenOptions",
    "Problem",
    "RepairReport",
    "Residency",
    "RestoreProgress",
    "RestoreReport",
    "RetentionAction",
    "RetentionReport",
    "ScrubFinding",
    "ScrubProgress",
    "ScrubReport",
    "ScrubUnreached",
    "Segment",
    "SegmentCheck",
    "SkipReason",
    "SkippedRange",
    "SnapshotInfo",
    "StartLike",
    "StrPath",
    "Swept",
    "TierMetrics",
    "TierStatus",
    "VerifyProgress",
    "VerifyReport",
    "Visibility",
    "Watermarks",
]
