"""A streaming query whose driver is killed before or behind the sink's commit of batch 1."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["PYSPARK_PYTHON"] = sys.executable

from aof2.spark.source import AofDataSource
from aof2.spark.write.sink import StreamWriter, stream_writer
from pyspark.sql import SparkSession
from support import SESSION_CONF

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

directory, moment = Path(sys.argv[1]), sys.argv[2]
pids = directory / "pids"
BATCH = 1


def kill_driver(pids: Path) -> None:
    for pid in pids.read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    # This process belongs to the driver as well.
    os.kill(os.getpid(), signal.SIGKILL)


def fatal_source(moment: str, pids: Path, batch: int) -> type[AofDataSource]:
    """Classes made in a function are sent to other processes as they are."""

    class FatalWriter(StreamWriter):
        def __reduce__(self) -> tuple[Any, ...]:
            return FatalWriter, (self.options, self.layout, self.overwrite)

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            if moment == "before" and batchId == batch:
                kill_driver(pids)
            super().commit(messages, batchId)
            if moment == "behind" and batchId == batch:
                kill_driver(pids)

    class FatalSource(AofDataSource):
        @classmethod
        def name(cls) -> str:
            return "fatal"

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
            writer = stream_writer(dict(self.options), schema, overwrite)
            return FatalWriter(writer.options, writer.layout, writer.overwrite)

    return FatalSource


builder = SparkSession.builder.master("local[2]")
for name, value in SESSION_CONF.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
pids.write_text(f"{spark.sparkContext._gateway.proc.pid} {os.getpid()}")
spark.dataSource.register(fatal_source(moment, pids, BATCH))

arriving = directory / "input"
if not arriving.exists():
    arriving.mkdir()
    for number in range(3):
        lines = (f"row {row}\n" for row in range(number * 100, number * 100 + 100))
        file = arriving / f"{number}.txt"
        file.write_text("".join(lines))
        # Files are taken in the order of their times.
        os.utime(file, (1_700_000_000 + number,) * 2)

source = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(arriving))
query = (
    source.toDF("payload")
    .writeStream.format("fatal")
    .option("checkpointLocation", str(directory / "checkpoint"))
    .trigger(availableNow=True)
    .start(str(directory / "t"))
)
query.awaitTermination()
raise SystemExit("nobody killed the driver")
