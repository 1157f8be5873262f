"""``spark.read.format("aof2")``: plans splits on the driver, reads them on executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from aof2.spark.pickling import travelling
from aof2.spark.read.options import parse_options
from aof2.spark.read.ranges import batch_ranges
from aof2.spark.read.schema import Columns, query_columns
from aof2.spark.read.splits import Split, SplitSize, plan, record_bytes_for
from aof2.spark.streams import find_streams

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from aof2.spark.read.options import ReadOptions


class BatchReader(DataSourceReader):
    """A batch query. ``pushFilters`` is not there on purpose, see `options`."""

    def __init__(self, options: ReadOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    @classmethod
    def for_query(cls, options: Mapping[str, str], schema: StructType) -> BatchReader:
        """Check the options and the schema."""
        read_options = parse_options(options, "batch")
        return cls(read_options, query_columns(schema, read_options.layout))

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(type(self), self._options, self._columns)

    def partitions(self) -> list[InputPartition]:
        """Plan once per query, on the driver."""
        return [InputPartition(split) for split in plan_batch(self._options, self._columns)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one split, on an executor."""
        from aof2.spark.read.split_reader import HowToRead, SplitReader

        # Spark makes a partition of its own where there is none.
        split = partition.value or Split(())
        return iter(SplitReader(split, self._columns, HowToRead.of(self._options)))


def plan_batch(options: ReadOptions, columns: Columns) -> list[Split]:
    """Find the streams, their ranges, and cut them."""
    ranges = batch_ranges(find_streams(options.paths), options)
    size = SplitSize(options.max_bytes_per_partition, options.min_partitions)
    return plan(ranges, size, record_bytes_for(columns.native))
