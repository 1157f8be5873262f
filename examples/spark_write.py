"""Write DataFrames to a directory of logs: append, overwrite, route, and run a job twice.

Run it: python examples/spark_write.py   (needs Java 17 and pip install "aof2[spark]")
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
    """Write four times, look at what is there after each."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "derived"
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()

        def show(what: str) -> None:
            rows = spark.read.format("aof2").schema("stream STRING").load(str(target))
            logs = [path for path in target.iterdir() if path.name.startswith("part-")]
            print(f"{what}: {rows.count()} records in {len(logs)} logs")

        # A column payload (or value) is all that is needed; text is stored as UTF-8.
        events = spark.range(0, 1000, 1, 2).selectExpr("concat('event ', id) AS payload")
        events.write.format("aof2").mode("append").save(str(target))
        show("append")

        # All partitions appear at once, and the old ones go in the same step.
        newer = spark.range(0, 10, 1, 1).selectExpr("concat('newer ', id) AS payload")
        newer.write.format("aof2").mode("overwrite").save(str(target))
        show("overwrite")

        # A name and a version: a job that is run again writes nothing.
        for _ in range(2):
            job = events.write.format("aof2").mode("append")
            job.option("txnAppId", "nightly").option("txnVersion", 1).save(str(target))
            show("version 1 of the nightly job")

        # A column stream says which log a row belongs to.
        routed = spark.range(0, 100, 1, 1).selectExpr(
            "concat('record ', id) AS payload",
            "if(id % 4 = 0, 'orders', 'clicks') AS stream",
            "timestamp_millis(1767225600000 + id * 1000) AS timestamp",
        )
        routed.write.format("aof2").mode("overwrite").save(str(target))
        table = spark.read.format("aof2").schema("stream STRING").load(str(target))
        for row in table.groupBy("stream").count().orderBy("stream").collect():
            print(f"  {row.stream}: {row['count']}")

        # Each part is a log like any other.
        (orders,) = target.glob("part-*.orders")
        with aof2.open(orders) as log:
            first = log.read_offset(0)
            print(log.name, bytes(first).decode(), first.timestamp.isoformat())
        print("healthy:", aof2.verify(orders).is_healthy)
        spark.stop()


if __name__ == "__main__":
    main()
