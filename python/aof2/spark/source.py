"""The data source ``aof2``: hands out readers and writers.

Spark finds this class through the module ``pyspark_aof2`` and imports it in every
process that looks for sources. Readers and writers are imported when one is asked for;
the base class is all that is needed before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType


class AofDataSource(DataSource):
    """``format("aof2")``. Options and columns: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return "aof2"

    def schema(self) -> str:
        """Return all columns of the layout that was asked for."""
        _require_spark()
        from aof2.spark.read.options import parse_layout
        from aof2.spark.read.schema import layout_ddl

        return layout_ddl(parse_layout(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a batch query."""
        _require_spark()
        from aof2.spark.read.batch import BatchReader

        return BatchReader.for_query(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read a streaming query."""
        _require_spark()
        from aof2.spark.read.streaming import StreamReader

        return StreamReader.for_query(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Write a batch query."""
        _require_spark()
        from aof2.spark.write.sink import batch_writer

        return batch_writer(dict(self.options), schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Write a streaming query."""
        _require_spark()
        from aof2.spark.write.sink import stream_writer

        return stream_writer(dict(self.options), schema, overwrite)


def _require_spark() -> None:
    # Not on import: whoever uses another data source with an older Spark imports this too.
    from aof2.spark.requirements import require_spark

    require_spark()
