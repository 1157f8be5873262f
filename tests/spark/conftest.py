"""One Spark session for all tests of this folder; those that need another start a child."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Before the JVM starts: workers must run this very Python, and nothing may leave the
# machine or wait for a name server.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from slow_machines import make_spark_home
from support import SESSION_CONF

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session", autouse=True)
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Spark for this process and its children."""
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_HOME" not in os.environ:
            home = make_spark_home(tmp_path_factory.mktemp("spark") / "home")
            if home is not None:
                patch.setenv("SPARK_HOME", str(home))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A JVM on a busy machine takes its time, and Spark warns about things of its own."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(3_600))
            item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture(scope="session")
def spark(spark_home: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("aof2-tests")
    for name, value in SESSION_CONF.items():
        builder = builder.config(name, value)
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    session = builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
