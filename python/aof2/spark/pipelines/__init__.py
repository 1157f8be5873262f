"""Jobs over whole logs, each a function here and a command of ``aof2 spark``.

| job | does |
|---|---|
| `export` | writes a range to Parquet |
| `verify` | reads every record and checks it, in parallel |
| `copy` | copies a log into new segments, and compares every record |
| `profile` | counts records and bytes per segment and per hour |

Each takes a session and leaves it running, or starts a local one and stops it. Each
tells how far it is, if asked, and returns a report. `progress` is called from a thread
of its own.
"""

from aof2.spark.pipelines.copy import CopiedStream, CopyFailed, CopyReport, copy
from aof2.spark.pipelines.export import ExportedStream, ExportReport, export
from aof2.spark.pipelines.profile import HourProfile, ProfileReport, SegmentProfile, profile
from aof2.spark.pipelines.progress import Progress
from aof2.spark.pipelines.verify import Damage, VerifiedStream, VerifyReport, verify

__all__ = [
    "CopiedStream",
    "CopyFailed",
    "CopyReport",
    "Damage",
    "ExportReport",
    "ExportedStream",
    "HourProfile",
    "ProfileReport",
    "Progress",
    "SegmentProfile",
    "VerifiedStream",
    "VerifyReport",
    "copy",
    "export",
    "profile",
    "verify",
]
