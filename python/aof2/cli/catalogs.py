"""Catalogs on the command line: opening one, rows and operations as text and as JSON."""

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aof2.cli.errors import CommandError, ExitCode, usage
from aof2.cli.options import LOG_PATH
from aof2.cli.output import Column, Output
from aof2.cli.times import iso_ms, timestamp_ms

if TYPE_CHECKING:
    from aof2 import CatalogReader, CatalogView
    from aof2.catalog import Operation, OperationBatch

F = TypeVar("F", bound=Callable[..., Any])

#: Numbers that only say whether two things are the same: readers of JSON would round them.
_HASHES = ("crc64", "config_hash", "stream_id", "node_id")


def root_argument(function: F) -> F:
    """Add the directory that a catalog belongs to."""
    return click.argument("root", type=LOG_PATH, metavar="ROOT")(function)


def at_option(function: F) -> F:
    """Add ``--at``."""
    return click.option(
        "--at",
        type=GENERATION,
        metavar="GENERATION",
        help="The state after this generation, or operation (12.0). [default: now]",
    )(function)


class _Generation(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """A generation, or an operation, whose batch is meant: it holds as a whole."""

    name = "generation"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        generation, dot, index = text.partition(".")
        is_number = generation.isdecimal() and (index.isdecimal() or not dot)
        if not is_number or len(generation) > 20 or int(generation) >= 1 << 64:
            self.fail(f"{text!r} is neither a generation (12) nor an operation (12.0)", param, ctx)
        return int(generation)


GENERATION = _Generation()


def open_reader(root: str) -> "CatalogReader":
    """Open a catalog for reading; say what to do if there is none."""
    from aof2 import Catalog, NotALog

    try:
        return Catalog.read(root)
    except NotALog as error:
        raise no_catalog(root) from error


def no_catalog(root: str) -> CommandError:
    """Say that there is no catalog, or that its operation log is gone."""
    left = Path(root, ".aof2")
    if (left / "tables.redb").exists() or any((left / "checkpoints").glob("*.ckpt")):
        message = f"the operation log of the catalog of {root} is gone"
        hint = "bring it back, or start again with aof2 catalog rebuild"
        return CommandError(ExitCode.NOT_FOUND, "no_catalog", message, hint, path=root)
    hint = "check the path; aof2 catalog adopt makes a catalog of the logs of a directory"
    message = f"{root} has no catalog"
    return CommandError(ExitCode.NOT_FOUND, "no_catalog", message, hint, path=root)


def state(reader: "CatalogReader", at: int | None) -> "CatalogView":
    """Return the state after a generation, or now."""
    from aof2 import PastEnd, Trimmed

    try:
        return reader.view(at=at)
    except (PastEnd, Trimmed) as error:
        kind = "trimmed" if isinstance(error, Trimmed) else "past_end"
        hint = "aof2 oplog show lists the generations that there are"
        raise CommandError(ExitCode.NOT_FOUND, kind, str(error), hint) from error


def rows_of(view: "CatalogView", table: str) -> list[dict[str, Any]]:
    """Return the rows of a table; a name that no table has is wrong usage."""
    tables = view.tables()
    if table not in tables:
        raise usage(f"there is no table {table!r}", f"there are {', '.join(tables)}")
    return view.rows(table)


def value_text(name: str, value: Any) -> str:
    """Return a value of a row or an operation for people."""
    if value is None:
        return "-"
    exact = value_json(name, value)
    if isinstance(exact, str):
        return exact
    return json.dumps(exact, ensure_ascii=False, separators=(",", ":"))


def value_json(name: str, value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime.datetime):
        return iso_ms(timestamp_ms(value))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {inner: value_json(inner, given) for inner, given in value.items()}
    if isinstance(value, list | tuple):
        return [value_json(name, given) for given in value]
    if name in _HASHES and isinstance(value, int):
        return f"{value:016x}"
    return value


def row_object(row: dict[str, Any]) -> dict[str, Any]:
    """Make a JSON object of a row."""
    return {name: value_json(name, value) for name, value in row.items()}


OPERATION_COLUMNS = (
    Column("operation"),
    Column("time", is_time=True, leaves=1),
    Column("actor", is_name=True, leaves=2),
    Column("type"),
    Column("phase", leaves=3),
    Column("fields"),
)


def operation_row(operation: "Operation") -> tuple[str, ...]:
    """Make a row of an operation."""
    named = [*operation.fields.items()]
    if operation.segments:
        named.append(("segments", [segment.segment_id for segment in operation.segments]))
    return (
        str(operation.id),
        str(value_json("", operation.timestamp)),
        operation.actor,
        operation.type,
        operation.phase,
        " ".join(f"{name}={value_text(name, value)}" for name, value in named),
    )


def operation_object(operation: "Operation") -> dict[str, Any]:
    """Make a JSON object of an operation."""
    from dataclasses import asdict

    return {
        "operation": str(operation.id),
        "generation": operation.id.generation,
        "index": operation.id.index,
        "type": operation.type,
        "phase": operation.phase,
        "actor": operation.actor,
        "timestamp": value_json("", operation.timestamp),
        "stream_id": value_json("stream_id", operation.stream_id),
        "intent": None if operation.intent is None else str(operation.intent),
        "segments": [row_object(asdict(segment)) for segment in operation.segments],
        "fields": row_object(operation.fields),
    }


def print_batch(out: Output, batch: "OperationBatch") -> None:
    """Print the operations of a batch as soon as they come."""
    for operation in batch.operations:
        if out.as_json:
            out.object(operation_object(operation))
        else:
            out.line_of_cells(operation_row(operation))
    out.flush()
    if out.as_json:
        out.bytes.flush()
