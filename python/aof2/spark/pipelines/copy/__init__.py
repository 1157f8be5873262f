"""Copying logs into new segments.

A log has one writer, and the order of its records is its meaning. So each stream is
copied by one task, from its first record to its last, and the streams of a directory are
copied side by side. Comparing is done by many tasks: every record of the copy is read
again and compared with its original, byte for byte.

The target appears whole or not at all. Tasks write below ``.{name}.copy-{id}`` beside
it; what was compared gets its name by one rename. A failure removes the directory, a
crash leaves it, hidden from readers, to be deleted by hand.

    .{name}.copy-{id}/
      attempts/{attempt}         what one attempt of a task wrote
      logs/{stream}              the streams of a directory, about to be renamed
"""

from aof2.spark.pipelines.copy.job import copy
from aof2.spark.pipelines.copy.reports import CopiedStream, CopyFailed, CopyReport

__all__ = ["CopiedStream", "CopyFailed", "CopyReport", "copy"]
