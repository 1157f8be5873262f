"""The data source ``aof2.manifest``: what happened to the segments of logs, as a table.

One task for each log: a manifest is small, whatever the log holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

#: Columns in order, with their types; `details` is JSON.
_COLUMNS = {
    "stream": "string",
    "ordinal": "bigint",
    "chunk_index": "bigint",
    "chunk_offset": "bigint",
    "type": "string",
    "record_type": "int",
    "flags": "int",
    "segment_id": "bigint",
    "logical_offset": "bigint",
    "timestamp": "timestamp",
    "details": "string",
}


class ManifestDataSource(DataSource):
    """``format("aof2.manifest")``: takes the same paths as ``format("aof2")``."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return "aof2.manifest"

    def schema(self) -> str:
        """Return all columns."""
        return ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a batch query."""
        from aof2.spark.requirements import require_spark

        require_spark()
        _check_options(self.options)
        return ManifestReader(self.options["path"], _columns(schema))


class ManifestReader(DataSourceReader):
    """A batch query over the manifests of some logs."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self._path = path
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Plan one task for each log."""
        from aof2 import Manifest
        from aof2.spark.streams import find_streams

        streams = find_streams([self._path])
        for stream in streams:
            Manifest.open(stream.path)  # a log without one is a clear error on the driver
        return [InputPartition((stream.key, stream.path)) for stream in streams]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one manifest, on an executor."""
        import pyarrow as pa

        from aof2 import Manifest

        # Spark makes a partition of its own where there is none.
        if partition is None or partition.value is None:
            return
        key, path = partition.value
        for batch in Manifest.open(path).records_arrow():
            arrays = {"stream": pa.array([key] * batch.num_rows, pa.string())}
            arrays.update(zip(batch.schema.names, batch.columns, strict=True))
            yield pa.RecordBatch.from_pydict({name: arrays[name] for name in self._columns})


def _columns(schema: StructType) -> list[str]:
    from aof2.spark.errors import InvalidSchema

    for field in schema.fields:
        kind = _COLUMNS.get(field.name)
        if kind is None:
            raise InvalidSchema(
                f"a manifest has no column {field.name!r}; there are {', '.join(_COLUMNS)}",
                column=field.name,
            )
        if field.dataType.simpleString() != kind:
            raise InvalidSchema(
                f"column {field.name!r} is of type {kind}, not {field.dataType.simpleString()}",
                column=field.name,
            )
    return schema.fieldNames()


def _check_options(options: Mapping[str, str]) -> None:
    from aof2.spark.errors import InvalidOption

    for name in options:
        if name.lower() != "path":
            raise InvalidOption(
                f'option {name!r} is not known to format("aof2.manifest"); it takes a path only',
                option=name,
            )
    if not options.get("path"):
        raise InvalidOption(
            "load() needs the path of a log or of a directory of logs", option="path"
        )
