"""Reads, streams and computes through Spark Connect: a log, a scratch directory, a port."""

import json
import sys

import aof2.spark
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from slow_machines import finished
from support import SESSION_CONF

log, scratch, port = sys.argv[1:]
# A local server listens on a fixed port, where that of another test may listen as well.
DefaultChannelBuilder.default_port = staticmethod(lambda: int(port))  # type: ignore[method-assign]
builder = SparkSession.builder.remote("local[2]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
builder = builder.config("spark.connect.grpc.binding.port", port)
spark = builder.config("spark.connect.grpc.binding.address", "127.0.0.1").getOrCreate()
found = {"session": type(spark).__module__.rpartition(".")[0]}

frame = spark.read.format("aof2").option("startingOffsets", 10).load(log)
found["batch"] = list(frame.selectExpr("count(*)", "sum(offset)").first())
some = spark.read.format("aof2").schema("offset BIGINT").load(log)
found["subset"] = some.columns


def count(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Count rows."""
    return pa.record_batch({"rows": [batch.num_rows]})


near = aof2.spark.map_batches(spark, log, count, columns=["offset"], minPartitions=2)
found["map_batches"] = near.groupBy().sum("rows").first()[0]

try:
    spark.read.format("aof2").load(f"{scratch}/nowhere").count()
except Exception as error:
    found["error"] = "does not exist" in str(error)

finished(
    lambda: (
        spark.readStream.format("aof2")
        .option("startingOffsets", "earliest")
        .schema("offset BIGINT")
        .load(log)
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{scratch}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{scratch}/output")
    )
)
found["stream"] = spark.read.parquet(f"{scratch}/output").count()
print(json.dumps(found), flush=True)
spark.stop()
