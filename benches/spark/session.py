"""A process with one Spark session, which runs queries when it is told to.

Commands come as JSON, a line each, and answers go back the same way: so two sessions with
different settings can take turns, which one process cannot do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataset import Dataset


class Session:
    """The other end: starts the process and talks to it."""

    def __init__(self, sockets: str, dataset: Dataset) -> None:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__), sockets, json.dumps(dataset.to_dict())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _python_path()},
        )

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the Spark session ended: exit code {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()


def _python_path() -> str:
    """Workers unpickle the source of tuples from this folder."""
    here = str(Path(__file__).parent)
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


def serve(sockets: str, dataset: Dataset) -> None:
    import queries
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName("aof2-bench")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.enabled": str(sockets == "unix").lower(),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "prepare":
            queries.prepare(spark, dataset)
            answer: Any = {"spark": spark.version}
        else:
            started = time.perf_counter()
            run = queries.build(spark, dataset, command["way"], command["query"])
            found = [run()]
            answered = time.perf_counter()
            found.append(run())
            again = time.perf_counter() - answered
            answer = {"found": found, "whole": answered - started, "again": again}
        print(json.dumps(answer), flush=True)
    spark.stop()


if __name__ == "__main__":
    from dataset import Dataset

    serve(sys.argv[1], Dataset(**json.loads(sys.argv[2])))
