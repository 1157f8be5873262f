"""Follows a log in an object store, to which a writer adds: its prefix."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import aof2
from pyspark.sql import SparkSession
from support import SESSION_CONF

prefix = sys.argv[1]
builder = SparkSession.builder.master("local[2]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def archive(first: int, end: int) -> None:
    """Add records by a writer whose directory is lost afterwards."""
    with TemporaryDirectory() as directory:
        tiers = aof2.Tiers(cold=prefix)
        with aof2.Aof.open(Path(directory) / "clicks", tiers=tiers, recover=True) as log:
            log.append_many([b"%d" % n for n in range(first, end)])
            log.seal()
            assert log.wait("archived", end, timeout=120), log.tiers()


def read_on(checkpoint: str, rows: str) -> list[int]:
    """Read what is there now and was not read before; what was read so far."""
    source = spark.readStream.format("aof2").option("startingOffsets", "earliest")
    query = source.load(f"{prefix}/clicks").select("offset", "payload")
    writer = query.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(rows).awaitTermination()
    return [int(row.payload) for row in spark.read.parquet(rows).orderBy("offset").collect()]


found = []
with TemporaryDirectory() as directory:
    places = f"{directory}/checkpoint", f"{directory}/rows"
    for first, end in ((0, 700), (700, 1000)):
        archive(first, end)
        found.append(read_on(*places) == list(range(end)))
print(json.dumps(found))
spark.stop()
