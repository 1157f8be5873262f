"""A streaming query from one log to another, stopped and restarted, each record once.

Run it: python examples/spark_write_stream.py   (needs Java 17 and pip install "aof2[spark]")
"""

import os
import sys
import tempfile
from pathlib import Path

import aof2
from pyspark.sql import SparkSession

# Workers run the Python that has aof2.
os.environ["PYSPARK_PYTHON"] = sys.executable


def main() -> None:
    """Filter what arrives, in two runs of the same query."""
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch) / "events", Path(scratch) / "even"
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()

        def run() -> None:
            events = spark.readStream.format("aof2").option("startingOffsets", "earliest")
            even = events.load(str(source)).where("offset % 2 = 0")
            query = (
                even.select("payload", "timestamp")
                .writeStream.format("aof2")
                # The checkpoint is what makes a second run go on where the first ended.
                .option("checkpointLocation", str(Path(scratch) / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(target))
            )
            query.awaitTermination()

        def append(first: int, count: int) -> None:
            with aof2.Aof.open(source) as log:
                log.append_many([f"event {i}".encode() for i in range(first, first + count)])
                log.flush()

        for first in (0, 100):
            append(first, 100)
            run()
            texts = (
                spark.read.format("aof2")
                .load(str(target))
                .selectExpr("CAST(payload AS STRING) AS text")
            )
            found = sorted(int(row.text.split()[1]) for row in texts.collect())
            expected = list(range(0, first + 100, 2))
            print(f"{len(found)} events, from {found[0]} to {found[-1]}:", found == expected)
        spark.stop()


if __name__ == "__main__":
    main()
