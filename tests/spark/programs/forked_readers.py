"""Forks while logs are open, as the daemon of Spark's workers may: a log to read.

Prints what the children counted, and what the parent's own handle said to them.
"""

import json
import os
import sys

import aof2
import aof2.spark
from aof2.spark.open_logs import OPEN_LOGS

path = sys.argv[1]
splits = aof2.spark.partitions(path, minPartitions=3)
# The parent has read everything before, and keeps its reader.
parent_count = sum(1 for split in splits for _ in aof2.spark.read_partition(split))
parent_reader = OPEN_LOGS.reader(path)
writer = aof2.Aof.open(path)


def read(split: aof2.spark.Split) -> dict[str, object]:
    """What a child finds."""
    try:
        parent_reader.watermarks()
        refused = False
    except aof2.ForkedHandle:
        refused = True
    batches = aof2.spark.read_partition(split, format="arrow", columns=["offset"])
    rows = sum(batch.num_rows for batch in batches)
    return {"refused": refused, "rows": rows, "anew": OPEN_LOGS.reader(path) is not parent_reader}


found = []
for split in splits:
    to_read, to_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(to_write, json.dumps(read(split)).encode())
        os._exit(0)
    os.close(to_write)
    found.append(json.loads(os.read(to_read, 1 << 16)))
    os.close(to_read)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0

writer.append(b"the parent goes on")
writer.close()
print(json.dumps({"parent": parent_count, "children": found}))
