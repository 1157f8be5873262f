"""Sessions of Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of a cluster elsewhere, with no files of its own."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
