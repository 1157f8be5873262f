"""A driver with a streaming query, to be killed: log, checkpoint, output."""

import sys

from pyspark.sql import SparkSession
from slow_machines import finished
from support import SESSION_CONF

log, checkpoint, output = sys.argv[1:]
builder = SparkSession.builder.master("local[2]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
finished(
    lambda: (
        spark.readStream.format("aof2")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 50)
        .schema("offset BIGINT, payload BINARY")
        .load(log)
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .start(output)
    )
)
