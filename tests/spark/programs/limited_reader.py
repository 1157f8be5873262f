"""Reads logs in a process whose address space holds three segments more: a log, a small one.

Prints what each way to read found.
"""

import json
import resource
import sys
from pathlib import Path

import aof2
import aof2.spark
import pyarrow as pa
import pyarrow.compute as pc
from aof2.spark.open_logs import OPEN_LOGS
from aof2.spark.pipelines.copy.comparing import Pair, compare
from aof2.spark.pipelines.verify.split import verify_split
from aof2.spark.read.options import read_options

log, small = sys.argv[1:]
KEPT: dict[str, aof2.Reader] = {}


def by_batches(path: str) -> int:
    """Bytes of all payloads, as a task of a query reads them."""
    batches = aof2.spark.read_partition(split_of(path), format="arrow", columns=["payload"])
    return sum(pc.sum(pc.binary_length(batch["payload"])).as_py() for batch in batches)


def by_records(path: str) -> int:
    """The same, as tasks of an RDD read them."""
    return sum(len(record) for record in aof2.spark.read_partition(split_of(path)))


def verified(path: str) -> int:
    """Records that a task of the pipeline found intact."""
    return sum(verify_split(split_of(path)).intact.values())


def compared(path: str) -> int:
    """Records that a task compared with themselves: two readers side by side."""
    (piece,) = split_of(path).pieces
    return compare(Pair(piece, piece, read_options(path, {})))


def by_one_reader(path: str) -> int:
    """Bytes of all payloads by one scan of one reader, which is kept."""
    batches = pa.RecordBatchReader.from_stream(KEPT.setdefault(path, aof2.open(path)).scan_arrow())
    return sum(pc.sum(pc.binary_length(batch["payload"])).as_py() for batch in batches)


def split_of(path: str) -> aof2.spark.Split:
    """All records as one task."""
    (split,) = aof2.spark.partitions(path, minPartitions=1, maxBytesPerPartition="1g")
    return split


WAYS = (by_batches, by_records, verified, compared, by_one_reader)
# What is allocated once for good is not to be counted.
for way in WAYS:
    way(small)
OPEN_LOGS.clear()
pages = int(Path("/proc/self/statm").read_text().split()[0])
with aof2.open(log) as reader:
    segment_bytes = max(segment.file_bytes for segment in reader.segments())
room_bytes = 3 * segment_bytes
limit_bytes = pages * resource.getpagesize() + room_bytes
resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))
found = {way.__name__: way(log) for way in WAYS}
maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
ranges = [line[0].split("-") for line in maps if line[-1].endswith(".seg")]
mapped_bytes = sum(int(end, 16) - int(start, 16) for start, end in ranges)
print(json.dumps({**found, "mapped_bytes": mapped_bytes, "room_bytes": room_bytes}))
