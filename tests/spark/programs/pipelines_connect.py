"""Runs every pipeline through Spark Connect: a log, a scratch directory, a port."""

import json
import shutil
import sys

import aof2
from aof2.spark import pipelines
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
from support import SESSION_CONF

log, scratch, port = sys.argv[1:]
# A local server listens on a fixed port, where that of another test may listen as well.
DefaultChannelBuilder.default_port = staticmethod(lambda: int(port))  # type: ignore[method-assign]
builder = SparkSession.builder.remote("local[2]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
builder = builder.config("spark.connect.grpc.binding.port", port)
spark = builder.config("spark.connect.grpc.binding.address", "127.0.0.1").getOrCreate()
found: dict[str, object] = {}
told: list[pipelines.Progress] = []
how = {"spark": spark, "progress": told.append}

# A busy machine may end a run early, and the next one starts where nothing is.
shutil.rmtree(f"{scratch}/copy", ignore_errors=True)
exported = pipelines.export(log, f"{scratch}/out", start=10, mode="overwrite", **how)
found["export"] = exported.record_count
verified = pipelines.verify(log, minPartitions=3, **how)
found["verify"] = [verified.is_healthy, verified.record_count]
found["copy"] = pipelines.copy(log, f"{scratch}/copy", **how).record_count
total = pipelines.profile(log, **how).total
found["profile"] = total and total.record_count
try:
    pipelines.verify(f"{scratch}/nowhere", **how)
except aof2.NotALog:
    found["not a log"] = True
steps = ["export", "verify", "copy", "compare", "profile"]
last = {state.step: state for state in told}
found["told"] = list(last) == steps and all(s.done == s.total for s in last.values())
print(json.dumps(found), flush=True)
spark.stop()
