"""Where Spark looks: a top-level module ``pyspark_*`` with a ``DefaultSource``.

Every process that looks for data sources imports this, whichever source it is after.
So it is cheap, starts no thread, and loads the native module only in use.
"""

from aof2.spark.source import AofDataSource as DefaultSource

__all__ = ["DefaultSource"]
