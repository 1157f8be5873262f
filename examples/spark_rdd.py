"""Take the splits of a log into your own hands: records and Arrow batches in RDDs.

A split is a path and a range of offsets. It travels to an executor, which opens the log
there and reads its part.

Run it: python examples/spark_rdd.py   (needs Java 17 and pip install "aof2[spark]")
"""

import os
import sys
import tempfile
from pathlib import Path

import aof2
import aof2.spark
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable


def main() -> None:
    """Count words from records, and add up offsets from Arrow batches."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "lines"
        with aof2.Aof.open(path) as log:
            log.append_many(f"line {i % 10} of many".encode() for i in range(20_000))
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        context = spark.getOrCreate().sparkContext

        # Records, one by one: convenient, with a Python object for each.
        splits = aof2.spark.partitions(path, minPartitions=4)
        print(len(splits), "splits,", sum(split.record_count for split in splits), "records")
        words = (
            context.parallelize(splits, len(splits))
            .flatMap(aof2.spark.read_partition)
            .flatMap(lambda record: bytes(record).split())
            .countByValue()
        )
        print("lines:", words[b"line"], "sevens:", words[b"7"])

        # Arrow batches: no Python object per record. Only the column that is needed.
        def total(split: aof2.spark.Split) -> list[int]:
            import pyarrow.compute as pc

            batches = aof2.spark.read_partition(split, format="arrow", columns=["offset"])
            return [pc.sum(batch["offset"]).as_py() for batch in batches]

        last = aof2.spark.partitions(path, columns=["offset"], startingOffsets=19_000)
        print("sum of the last offsets:", context.parallelize(last, len(last)).flatMap(total).sum())
        context.stop()


if __name__ == "__main__":
    main()
