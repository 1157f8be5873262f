"""Query a log with Spark: columns, ranges, a directory of logs, Kafka's layout.

Run it: python examples/spark_read.py   (needs Java 17 and pip install "aof2[spark]")
"""

import os
import sys
import tempfile
from pathlib import Path

import aof2
from pyspark.sql import SparkSession

# Workers run the Python that has aof2.
os.environ["PYSPARK_PYTHON"] = sys.executable

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def write(path: Path, count: int) -> None:
    """Append one event per minute."""
    with aof2.Aof.open(path) as log:
        for i in range(count):
            action = ("view", "click", "buy")[i % 3]
            log.append(f"{action} {i}".encode(), timestamp_ms=FIRST_MS + i * 60_000)


def main() -> None:
    """Read what was written, in five ways."""
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        write(data / "clicks", 10_000)
        write(data / "orders", 500)
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()

        clicks = spark.read.format("aof2").load(str(data / "clicks"))
        print(clicks.schema.simpleString())
        clicks.createOrReplaceTempView("clicks")
        query = """
            SELECT split(decode(payload, 'UTF-8'), ' ')[0] AS action, count(*) AS events
            FROM clicks GROUP BY action ORDER BY action
        """
        for row in spark.sql(query).collect():
            print(f"{row.action:>6} {row.events}")

        # A range is an option: only its records are read, and nothing before them.
        first_hour = (
            spark.read.format("aof2")
            .option("startingTimestamp", "2026-01-01T00:00:00Z")
            .option("endingTimestamp", "2026-01-01T01:00:00Z")
            .load(str(data / "clicks"))
        )
        print("first hour:", first_hour.count(), "events")

        # A schema names the columns that are wanted; payloads are not touched here.
        offsets = spark.read.format("aof2").schema("offset BIGINT").load(str(data / "clicks"))
        (largest,) = offsets.groupBy().max("offset").collect()
        print("largest offset:", largest[0])

        # A directory of logs; the column stream tells them apart.
        both = spark.read.format("aof2").load(str(data))
        for row in both.groupBy("stream").count().orderBy("stream").collect():
            print(f"{row.stream:>6} {row['count']}")

        # What was written for Kafka's source goes on working.
        kafka = (
            spark.read.format("aof2")
            .option("layout", "kafka")
            .option("startingOffsets", '{"clicks": {"0": 9998}, "orders": {"0": -1}}')
            .load(str(data))
        )
        for row in kafka.selectExpr("topic", "offset", "CAST(value AS STRING)").collect():
            print(row.topic, row.offset, row.value)
        spark.stop()


if __name__ == "__main__":
    main()
