"""Which column of a DataFrame means what.

The schema is looked at once, on the driver, so that a wrong column fails before any task
runs. What the sink would have to leave out is refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aof2.spark.errors import InvalidSchema

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from aof2.spark.write.options import OnKey

_TEXT_OR_BINARY = ("string", "binary", "char", "varchar")
_TAKES = {
    "payload": ("BINARY or STRING", _TEXT_OR_BINARY),
    "value": ("BINARY or STRING", _TEXT_OR_BINARY),
    "stream": ("STRING", ("string", "char", "varchar")),
    "timestamp": ("TIMESTAMP", ("timestamp",)),
    "flags": ("INT", ("tinyint", "smallint", "int", "bigint")),
    "key": ("BINARY or STRING", _TEXT_OR_BINARY),
}
_HINTS = {
    "topic": "rename it to stream to write a log per topic",
    "timestamp_ntz": "cast it to TIMESTAMP: without a zone it is no moment",
}


@dataclass(frozen=True)
class RowLayout:
    """Which columns of a batch are what, by position."""

    payload: int
    stream: int | None = None
    timestamp: int | None = None
    flags: int | None = None
    #: A Kafka key that is not dropped, to be checked.
    key: int | None = None
    payload_name: str = "payload"


def row_layout(schema: StructType, on_key: OnKey) -> RowLayout:
    """Find out what each column means; refuse what the sink would have to leave out."""
    places: dict[str, int] = {}
    unknown = []
    for place, field in enumerate(schema.fields):
        name = field.name.lower()
        if name not in _TAKES:
            unknown.append(field.name)
        elif name in places:
            raise InvalidSchema(f"column {field.name} is there twice", column=field.name)
        else:
            _check_type(field.name, field.dataType)
            places[name] = place
    if unknown:
        raise _not_written(unknown)
    payload = [name for name in ("payload", "value") if name in places]
    if len(payload) != 1:
        raise InvalidSchema(
            "the DataFrame has both a column payload and a column value; drop one"
            if payload
            else "which column are the records? Name one payload (or value)",
            column="payload",
        )
    return RowLayout(
        payload=places[payload[0]],
        stream=places.get("stream"),
        timestamp=places.get("timestamp"),
        flags=places.get("flags"),
        key=places.get("key") if on_key == "fail" else None,
        payload_name=payload[0],
    )


def _check_type(name: str, found: DataType) -> None:
    described, allowed = _TAKES[name.lower()]
    # A string may carry a collation, and char and varchar a length.
    kind = found.simpleString().lower().split("(")[0].split(" ")[0]
    if kind in allowed:
        return
    hint = _HINTS.get(kind, "cast it")
    raise InvalidSchema(
        f"column {name} is {found.simpleString().upper()}, a log takes {described}; {hint}",
        column=name,
    )


def _not_written(names: list[str]) -> InvalidSchema:
    hints = [_HINTS[name.lower()] for name in names if name.lower() in _HINTS]
    listed = ", ".join(names)
    return InvalidSchema(
        f"the sink does not write column{'s' * (len(names) > 1)} {listed}: a record has payload "
        f"(or value), timestamp and flags, and goes to the log that stream names; drop "
        f"{'them' if len(names) > 1 else 'it'} or put {'them' if len(names) > 1 else 'it'} into "
        f"the payload{''.join('; ' + hint for hint in hints)}",
        column=names[0],
    )
