"""Reading every record of a log and checking it, in parallel.

Each task reads one split through the same reader as everybody, with checksums. Where that
does not give every record, it walks the segment from its first one to find out what lies
there: damage with its file and byte, or a gap that an earlier repair left. Records are
what is checked here: `aof2.verify` also checks what readers do not need, such as
counters, padding and names.
"""

from aof2.spark.pipelines.verify.job import verify
from aof2.spark.pipelines.verify.reports import Damage, VerifiedStream, VerifyReport

__all__ = ["Damage", "VerifiedStream", "VerifyReport", "verify"]
