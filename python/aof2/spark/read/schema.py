"""The columns of a log, and the part of them that a query wants.

Spark compares the Arrow schema of the first batch with its own and is obscure about
later ones. So the fields are built here from the schema Spark asked for: same order,
same nullability, and only the Arrow types it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aof2.spark.errors import InvalidSchema, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from aof2.spark.read.options import Layout

#: Native columns that no payload and, in sealed segments, no record has to be read for.
KNOWN_FROM_FOOTERS = frozenset({"stream", "segment_id", "offset"})


@dataclass(frozen=True)
class Column:
    """A column of a layout."""

    name: str
    #: As in DDL.
    spark_type: str
    #: The column of `scan_arrow` it shows; None for one that is the same in every row.
    native: str | None
    #: What every row has, where nothing native is shown.
    constant: int | None = None


_RECORDS = (
    Column("stream", "string", "stream"),
    Column("segment_id", "bigint", "segment_id"),
    Column("offset", "bigint", "offset"),
    Column("record_id", "bigint", "record_id"),
    Column("timestamp", "timestamp", "timestamp"),
    Column("flags", "int", "flags"),
    Column("payload", "binary", "payload"),
)
# A stream is a topic with one partition; its records have no key, and the time of the
# append (Kafka's type 0) as their timestamp.
_KAFKA = (
    Column("key", "binary", None),
    Column("value", "binary", "payload"),
    Column("topic", "string", "stream"),
    Column("partition", "int", None, 0),
    Column("offset", "bigint", "offset"),
    Column("timestamp", "timestamp", "timestamp"),
    Column("timestampType", "int", None, 0),
)
LAYOUTS: dict[Layout, tuple[Column, ...]] = {"records": _RECORDS, "kafka": _KAFKA}


def layout_ddl(layout: Layout) -> str:
    """Return all columns of a layout as DDL; only a Kafka key can be null."""
    return ", ".join(
        f"`{column.name}` {column.spark_type}{'' if column.name == 'key' else ' NOT NULL'}"
        for column in LAYOUTS[layout]
    )


@dataclass(frozen=True)
class Columns:
    """The columns of a query, in its order."""

    columns: tuple[Column, ...]
    nullable: tuple[bool, ...]

    @property
    def native(self) -> tuple[str, ...]:
        """What to ask `scan_arrow` for: at least one, or there would be no rows."""
        names = tuple(dict.fromkeys(c.native for c in self.columns if c.native is not None))
        return names or ("offset",)

    @property
    def has_payload(self) -> bool:
        """Whether payloads are read."""
        return "payload" in self.native

    def arrow_schema(self) -> pa.Schema:
        """Return the fields as Spark expects them."""
        import pyarrow as pa

        types = {
            "string": pa.utf8(),
            "bigint": pa.int64(),
            "int": pa.int32(),
            "binary": pa.binary(),
            "timestamp": pa.timestamp("us", tz="UTC"),
        }
        return pa.schema(
            [
                pa.field(column.name, types[column.spark_type], nullable)
                for column, nullable in zip(self.columns, self.nullable, strict=True)
            ]
        )


def native_columns(names: Sequence[str] | None) -> Columns:
    """Return columns of the records by name; all of them if none are named."""
    known = {column.name: column for column in _RECORDS}
    for name in names or ():
        if name not in known:
            raise _no_such_column(name, "records")
    columns = _RECORDS if names is None else tuple(known[name] for name in names)
    if not columns:
        raise InvalidSchema(f"name at least one of {listed(list(known))}", column="")
    return Columns(columns, (False,) * len(columns))


def query_columns(schema: StructType, layout: Layout) -> Columns:
    """Return the columns of a schema: those of the layout or some of them, in any order."""
    known = {column.name: column for column in LAYOUTS[layout]}
    columns = []
    for field in schema.fields:
        column = known.get(field.name)
        if column is None:
            raise _no_such_column(field.name, layout)
        if field.dataType.simpleString() != column.spark_type:
            raise InvalidSchema(
                f"column {column.name} is {column.spark_type.upper()}, not "
                f"{field.dataType.simpleString().upper()}; cast it after loading",
                column=column.name,
            )
        if column.name == "key" and not field.nullable:
            raise InvalidSchema("column key is always null: records have no key", column="key")
        columns.append(column)
    if not columns:
        raise InvalidSchema(f"a schema names at least one of {listed(list(known))}", column="")
    names = [column.name for column in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidSchema(f"the schema names column {twice[0]} twice", column=twice[0])
    return Columns(tuple(columns), tuple(field.nullable for field in schema.fields))


def _no_such_column(name: str, layout: Layout) -> InvalidSchema:
    columns = ", ".join(f"{c.name} {c.spark_type.upper()}" for c in LAYOUTS[layout])
    return InvalidSchema(
        f"there is no column {name!r}; layout {layout} has {columns}, and a schema may name "
        "some of them",
        column=name,
    )
