"""Spark reads and writes logs: ``format("aof2")``, and splits for everything else.

The source is found by itself once the package is installed:

    spark.read.format("aof2").load("data/events")
    spark.readStream.format("aof2").load("data/events")

`partitions` and `read_partition` hand out the same splits for RDDs and for other
engines; `map_batches` computes beside the data and sends only results to the JVM.
`pipelines` has whole jobs: export, verify, copy, profile.

================  =========================================================
``source``        the data source ``aof2``: hands out readers and writers
``read``          queries: options, ranges, splits, and what their tasks do
``write``         the sink: options, staging by tasks, publishing by the driver
``pipelines``     jobs over whole logs
================  =========================================================

Neither of ``read`` and ``write`` knows the other. What both need is beside them: which
logs a path stands for (``streams``, ``buckets``, ``commits``), readers that stay open
(``open_logs``), ``files``, values of options (``values``), ``errors``, and how objects get
to executors (``pickling``). ``manifest_source`` is the data source ``aof2.manifest``, and
``catalog_source`` is ``aof2.catalog``.

Nothing heavy is imported before it is used: Spark imports the source in several
processes per query, most of which never open a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aof2.spark import pipelines
    from aof2.spark.errors import (
        DataLoss,
        IncompleteRead,
        InvalidOption,
        InvalidSchema,
        PackageMismatch,
    )
    from aof2.spark.read.near_data import map_batches
    from aof2.spark.read.rdd import partitions, read_partition
    from aof2.spark.read.splits import Piece, Split
    from aof2.spark.source import AofDataSource

__all__ = [
    "AofDataSource",
    "DataLoss",
    "IncompleteRead",
    "InvalidOption",
    "InvalidSchema",
    "PackageMismatch",
    "Piece",
    "Split",
    "map_batches",
    "partitions",
    "pipelines",
    "read_partition",
]

_HOME = {
    "AofDataSource": "source",
    "DataLoss": "errors",
    "IncompleteRead": "errors",
    "InvalidOption": "errors",
    "InvalidSchema": "errors",
    "PackageMismatch": "errors",
    "Piece": "read.splits",
    "Split": "read.splits",
    "map_batches": "read.near_data",
    "partitions": "read.rdd",
    "read_partition": "read.rdd",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "pipelines":
        return import_module(f"{__name__}.pipelines")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
