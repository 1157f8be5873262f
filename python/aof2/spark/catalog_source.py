"""The data source ``aof2.catalog``: a table of the catalog of a directory of logs.

The driver looks at the catalog once and settles the generation; one task reads the table as
it was then. Neither needs a writer, a lock or a file of its own: a reader makes its tables
from the newest checkpoint and the operation log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql.types import StructType

_OPTIONS = ("path", "table", "generation")


class CatalogDataSource(DataSource):
    """``format("aof2.catalog")``: options ``table`` and ``generation``, and a root to load."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return "aof2.catalog"

    def schema(self) -> StructType:
        """Return the columns of the table."""
        import pyarrow as pa
        from pyspark.sql.pandas.types import from_arrow_schema

        _check_options(self.options)
        fields = pa.schema(_open_table(self.options))
        # As a schema that somebody asks for: its columns may hold nulls.
        return from_arrow_schema(pa.schema([field.with_nullable(True) for field in fields]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read a batch query."""
        from aof2.spark.requirements import require_spark

        require_spark()
        _check_options(self.options)
        _check_columns(schema, self.schema(), self.options["table"])
        return CatalogTableReader(dict(self.options), schema.fieldNames())


class CatalogTableReader(DataSourceReader):
    """A batch query over one table of a catalog."""

    def __init__(self, options: dict[str, str], columns: list[str]) -> None:
        self._root = options["path"]
        self._table = options["table"]
        self._generation = _generation(options)
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Plan one task, for the state of one generation."""
        from aof2 import Catalog

        generation = self._generation
        if generation is None:
            # Settled here: a task that is tried again reads the same state.
            with Catalog.read(self._root) as reader:
                generation = reader.view().generation
        return [InputPartition(generation)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the table, on an executor."""
        import pyarrow as pa

        from aof2 import Catalog

        # Spark makes a partition of its own where there is none.
        if partition is None or partition.value is None:
            return
        with Catalog.read(self._root) as reader:
            table = reader.view().table(self._table, at=partition.value)
        for batch in pa.RecordBatchReader.from_stream(table):
            columns = {name: batch.column(name) for name in self._columns}
            yield pa.RecordBatch.from_pydict(columns)


def _open_table(options: Mapping[str, str]) -> object:
    """Return the table, whose schema Arrow can ask for."""
    from aof2 import Catalog
    from aof2.spark.errors import InvalidOption

    with Catalog.read(options["path"]) as reader:
        view = reader.view()
        if options["table"] not in view.tables():
            names = ", ".join(view.tables())
            raise InvalidOption(
                f"option 'table': there is no table {options['table']!r}; there are {names}",
                option="table",
            )
        return view.table(options["table"])


def _generation(options: Mapping[str, str]) -> int | None:
    from aof2.spark.errors import InvalidOption

    text = options.get("generation")
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise InvalidOption(
            f"option 'generation' must be a generation of the catalog, not {text!r}",
            option="generation",
        )
    return int(text)


def _check_columns(asked: StructType, there: StructType, table: str) -> None:
    from aof2.spark.errors import InvalidSchema

    kinds = {field.name: field.dataType.simpleString() for field in there.fields}
    for field in asked.fields:
        kind = kinds.get(field.name)
        if kind is None:
            raise InvalidSchema(
                f"table {table!r} has no column {field.name!r}; there are {', '.join(kinds)}",
                column=field.name,
            )
        if field.dataType.simpleString() != kind:
            raise InvalidSchema(
                f"column {field.name!r} is of type {kind}, not {field.dataType.simpleString()}",
                column=field.name,
            )


def _check_options(options: Mapping[str, str]) -> None:
    from aof2.spark.errors import InvalidOption

    for name in options:
        if name.lower() not in _OPTIONS:
            raise InvalidOption(
                f'option {name!r} is not known to format("aof2.catalog"); it takes table and '
                "generation",
                option=name,
            )
    for name, what in (
        ("path", "load() needs the directory that the catalog belongs to"),
        ("table", "option 'table' must name a table of the catalog, such as db"),
    ):
        if not options.get(name):
            raise InvalidOption(what, option=name)
    _generation(options)
