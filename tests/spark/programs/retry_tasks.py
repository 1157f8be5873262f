"""Writes with tasks that fail once, after some of their rows were staged."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark import TaskContext
from pyspark.sql import SparkSession
from support import SESSION_CONF

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

directory = Path(sys.argv[1])
failures = directory / "failures"
failures.mkdir()


def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task = TaskContext.get()
    assert task is not None
    for number, batch in enumerate(batches):
        if number == 3 and task.attemptNumber() == 0:
            (failures / str(task.partitionId())).touch()
            raise RuntimeError("this attempt ends here")
        yield batch


builder = SparkSession.builder.master("local[2,3]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
# Small batches, so that rows reach the sink before the task fails.
builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.range(0, 20_000, 1, 2).selectExpr("cast(id as string) as payload")
failing = rows.mapInArrow(fail_once, "payload string")
failing.write.format("aof2").mode("append").save(str(directory / "t"))
print(f"failed attempts: {len(list(failures.iterdir()))}")
spark.stop()
