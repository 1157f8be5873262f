"""Reads, streams, computes and writes through Spark Connect: a log, a scratch directory, a port."""

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

# And back: a batch, and a stream that goes through the sink.
again = f"{scratch}/again"
read = spark.read.format("aof2").option("minPartitions", 2).load(log).select("payload")
read.write.format("aof2").mode("overwrite").save(f"{again}/batch")
finished(
    lambda: (
        spark.readStream.format("aof2")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .schema("payload BINARY")
        .load(log)
        .writeStream.format("aof2")
        .option("checkpointLocation", f"{scratch}/checkpoint-again")
        .trigger(availableNow=True)
        .start(f"{again}/stream")
    )
)
written = spark.read.format("aof2").load(again)
found["written"] = list(written.selectExpr("count(*)", "count(distinct payload)").first())

print(json.dumps(found), flush=True)
spark.stop()
