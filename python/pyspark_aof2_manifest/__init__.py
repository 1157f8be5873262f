"""Where Spark finds ``aof2.manifest``; see ``pyspark_aof2``."""

from aof2.spark.manifest_source import ManifestDataSource as DefaultSource

__all__ = ["DefaultSource"]
