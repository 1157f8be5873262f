"""Follow a log with a streaming query that remembers where it was.

Run it: python examples/spark_stream.py   (needs Java 17 and pip install "aof2[spark]")
"""

import os
import sys
import tempfile
from pathlib import Path

import aof2
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable


def run(spark: SparkSession, scratch: Path) -> list[int]:
    """Process all that is there now, and return the rows of each micro-batch."""
    query = (
        spark.readStream.format("aof2")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .load(str(scratch / "events"))
        .selectExpr("offset", "decode(payload, 'UTF-8') AS text")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(scratch / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(scratch / "texts"))
    )
    query.awaitTermination()
    return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]


def main() -> None:
    """Run the query twice: the second run goes on behind the first."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.getOrCreate()
        with aof2.Aof.open(scratch / "events") as log:
            log.append_many(f"event {i}".encode() for i in range(1_000))
            log.flush()
            print("rows per micro-batch:", run(spark, scratch))

            # The writer goes on; the checkpoint knows what was read.
            log.append_many(f"event {i}".encode() for i in range(1_000, 1_100))
            log.flush()
            print("rows per micro-batch:", run(spark, scratch))

        texts = spark.read.parquet(str(scratch / "texts"))
        print(texts.count(), "rows,", texts.select("offset").distinct().count(), "offsets")
        spark.stop()


if __name__ == "__main__":
    main()
