"""Figures and reports as plain, immutable values, and the types of arguments.

The native module makes the values, by their names here.
"""

from aof2._types.arguments import (
    Admission,
    EndLike,
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
    "Format",
    "Hydrate",
    "KeptReason",
    "KeptSegment",
    "Level",
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
    "StartLike",
    "StrPath",
    "TierMetrics",
    "TierStatus",
    "VerifyProgress",
    "VerifyReport",
    "Visibility",
    "Watermarks",
]
