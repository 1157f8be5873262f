"""Reads, streams, computes and writes on a cluster of two executors: a log, a scratch directory."""

import json
import sys

import aof2.spark
import pyarrow as pa
from pyspark.sql import SparkSession
from slow_machines import finished
from support import SESSION_CONF

log, scratch = sys.argv[1:]
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
spark = builder.config("spark.executor.memory", "512m").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
found = {}

frame = spark.read.format("aof2").option("minPartitions", 4).load(log)
row = frame.selectExpr("count(*)", "sum(offset)", "sum(length(payload))").first()
found["batch"] = list(row)


def where(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Say which process read how many records."""
    import os

    return pa.record_batch({"pid": [os.getppid()], "rows": [batch.num_rows]})


near = aof2.spark.map_batches(
    spark, log, where, schema="pid bigint, rows bigint", columns=["offset"], minPartitions=4
)
found["map_batches"] = near.groupBy().sum("rows").first()[0]

splits = aof2.spark.partitions(log, minPartitions=4)
records = spark.sparkContext.parallelize(splits, len(splits)).flatMap(aof2.spark.read_partition)
found["rdd"] = records.map(len).sum()

finished(
    lambda: (
        spark.readStream.format("aof2")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 400)
        .schema("offset BIGINT")
        .load(log)
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{scratch}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{scratch}/output")
    )
)
streamed = spark.read.parquet(f"{scratch}/output")
found["stream"] = list(streamed.selectExpr("count(*)", "count(distinct offset)").first())

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

found["executors"] = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
spark.stop()
print(json.dumps(found))
