"""The packages that the connector needs, beyond those of aof2 itself."""

from __future__ import annotations

#: The first PySpark whose data sources have what this package needs.
PYSPARK_MIN = (4, 2)


def require_spark() -> None:
    """Fail with what to install if PySpark or pyarrow is missing or too old."""
    from aof2.spark.errors import PackageMismatch

    remedy = "pip install 'aof2[spark]'"
    try:
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        raise PackageMismatch(f"aof2.spark cannot import {error.name}; {remedy}") from error
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < PYSPARK_MIN:
        needed = ".".join(map(str, PYSPARK_MIN))
        raise PackageMismatch(
            f"aof2.spark needs PySpark {needed} or newer, this is {pyspark.__version__}; {remedy}"
        )
