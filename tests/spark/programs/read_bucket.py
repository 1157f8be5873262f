"""Reads a prefix of an object store on two executors: its address."""

import json
import sys

import aof2.spark
import pyarrow as pa
from pyspark.sql import SparkSession
from support import SESSION_CONF

prefix = sys.argv[1]
builder = SparkSession.builder.master("local-cluster[2,1,1024]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
spark = builder.config("spark.executor.memory", "512m").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
found = {}

events = f"{prefix}/events"
frame = spark.read.format("aof2").option("minPartitions", 4).load(events)
found["stream"] = list(frame.selectExpr("count(*)", "sum(offset)", "sum(length(payload))").first())

everything = spark.read.format("aof2").load(prefix)
found["prefix"] = everything.count()

part = spark.read.format("aof2").option("startingOffsets", 1000).option("endingOffsets", 1999)
found["range"] = part.load(events).count()


def rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Say how many records a batch has."""
    return pa.record_batch({"rows": [batch.num_rows]})


near = aof2.spark.map_batches(
    spark, events, rows, schema="rows bigint", columns=["offset"], minPartitions=4
)
found["map_batches"] = near.groupBy().sum("rows").first()[0]

splits = aof2.spark.partitions(events, minPartitions=4)
records = spark.sparkContext.parallelize(splits, len(splits)).flatMap(aof2.spark.read_partition)
found["rdd"] = records.map(len).sum()

print(json.dumps(found))
spark.stop()
