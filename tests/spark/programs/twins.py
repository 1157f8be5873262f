"""Writes on two machines: one dies in the middle of a task, then a task runs twice at once.

Prints how often the first partition was tried in each write.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["PYSPARK_PYTHON"] = sys.executable

from aof2.spark.source import AofDataSource
from aof2.spark.write.sink import BatchWriter, PartitionWritten, batch_writer
from pyspark import TaskContext
from pyspark.sql import SparkSession
from standalone import standalone_cluster
from support import SESSION_CONF

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

directory = Path(sys.argv[1])
ROWS, PARTITIONS, BATCH_ROWS = 20_000, 4, 500


def kill_executor() -> None:
    """End the JVM that this worker belongs to: its process, or the parent of its daemon."""
    parent = os.getppid()
    name = Path(f"/proc/{parent}/comm").read_text().strip()
    if name != "java":
        fields = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()
        parent = int(fields[1])
    os.kill(parent, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def troubled_source(trouble: str, seen: Path) -> type[AofDataSource]:
    """Classes made in a function are sent to other processes as they are."""

    class TroubledWriter(BatchWriter):
        def __reduce__(self) -> tuple[Any, ...]:
            return TroubledWriter, (self.options, self.layout, self.overwrite)

        def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionWritten:
            task = TaskContext.get()
            assert task is not None
            if task.partitionId() != 0:
                return super().write(iterator)
            (seen / f"attempt-{task.attemptNumber()}").touch()
            if task.attemptNumber() == 0:
                return super().write(self.troubled(iterator))
            written = super().write(iterator)
            (seen / "staged").touch()
            return written

        def troubled(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number, batch in enumerate(batches):
                if number == 3 and trouble == "killed":
                    kill_executor()
                while number == 3 and not (seen / "staged").exists():
                    # The twin is to finish first; then this one may, unless Spark is faster.
                    time.sleep(0.02)
                yield batch

    class TroubledSource(AofDataSource):
        @classmethod
        def name(cls) -> str:
            return f"troubled_{trouble}"

        def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
            writer = batch_writer(dict(self.options), schema, overwrite)
            return TroubledWriter(writer.options, writer.layout, writer.overwrite)

    return TroubledSource


with standalone_cluster(directory) as master:
    builder = SparkSession.builder.master(master)
    conf = {
        **SESSION_CONF,
        "spark.executor.memory": "512m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH_ROWS),
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "0ms",
    }
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    found = {}
    for trouble in ("killed", "twin"):
        seen = directory / f"seen-{trouble}"
        seen.mkdir()
        spark.dataSource.register(troubled_source(trouble, seen))
        rows = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("cast(id as string) as payload")
        rows.write.format(f"troubled_{trouble}").mode("append").save(str(directory / trouble))
        found[trouble] = len(list(seen.glob("attempt-*")))
    spark.stop()
print(json.dumps(found))
