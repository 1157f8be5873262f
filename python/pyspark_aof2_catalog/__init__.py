"""Where Spark finds ``aof2.catalog``; see ``pyspark_aof2``."""

from aof2.spark.catalog_source import CatalogDataSource as DefaultSource

__all__ = ["DefaultSource"]
