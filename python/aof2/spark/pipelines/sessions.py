"""The session that a pipeline runs on: the caller's, or a local one of its own."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aof2.spark.requirements import require_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

LOCAL = "local[*]"

_LOGGING = Path(__file__).with_name("log4j2.properties")
#: Nothing listens beyond this machine, and payloads take the short way to Python.
_LOCAL_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    # A busy machine is no failure.
    "spark.python.authenticate.socketTimeout": "600s",
    "spark.network.timeout": "900s",
    "spark.sql.session.timeZone": "UTC",
}


@contextmanager
def running(
    spark: SparkSession | None, *, master: str = LOCAL, conf: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Give a session: the one passed in, or the active one, or one started here.

    Only the last one is stopped at the end.
    """
    require_spark()
    if spark is None:
        from pyspark.sql import SparkSession

        # One process has one: to start another would give this one, and stop it.
        spark = SparkSession.getActiveSession()
    if spark is not None:
        yield spark
        return
    started = start(master, conf or {})
    try:
        yield started
    finally:
        started.stop()


def start(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Start a session; ``sc://`` connects to one that runs elsewhere."""
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.appName("aof2")
    if master.startswith("sc://"):
        builder = builder.remote(master)
        settings = dict(conf)
    else:
        builder = builder.master(master)
        is_local = master.startswith("local")
        settings = {**(_LOCAL_CONF if is_local else {}), **_logging(), **conf}
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _environment(is_local=master.startswith("local")):
        session: SparkSession = builder.getOrCreate()
    return session


def _logging() -> dict[str, str]:
    # The JVM cuts its options at spaces.
    if " " in str(_LOGGING):
        return {"spark.log.level": "ERROR"}
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"}


@contextmanager
def _environment(*, is_local: bool) -> Iterator[None]:
    """Let the JVM start with this very Python; what was set stays as it was."""
    wanted = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if is_local:
        # Else Spark asks a name server who this machine is.
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)
