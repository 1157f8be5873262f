"""``aof2 oplog diff``: what changed in the tables between two generations."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.catalogs import (
    GENERATION,
    open_reader,
    root_argument,
    row_object,
    rows_of,
    state,
    value_text,
)
from aof2.cli.options import NAME, examples, json_option
from aof2.cli.output import Column, Output

if TYPE_CHECKING:
    from aof2.catalog import RowChange

_COLUMNS = (Column("table"), Column("change"), Column("row"))


@click.command(
    "diff",
    epilog=examples("aof2 oplog diff data 120 140", "aof2 oplog diff data 120 140 --table db"),
)
@root_argument
@click.argument("a", type=GENERATION, metavar="A")
@click.argument("b", type=GENERATION, metavar="B")
@click.option("--table", type=NAME, help="Only the rows of this table.")
@json_option
def command(root: str, a: int, b: int, table: str | None, as_json: bool) -> None:
    """Show which rows differ between the state after A and the state after B.

    A and B are generations, or operations (12.0), whose batches are meant.
    """
    reader = open_reader(root)
    before, after = state(reader, a), state(reader, b)
    if table is not None:
        rows_of(after, table)  # a name that no table has is told as such
    out = Output(as_json=as_json)
    changes = before.changes_to(after, table)
    if as_json:
        for change in changes:
            out.object(_object(change))
        return
    out.table(_COLUMNS, [_row(change) for change in changes])


def _object(change: "RowChange") -> dict[str, Any]:
    return {
        "table": change.table,
        "before": None if change.before is None else row_object(change.before),
        "after": None if change.after is None else row_object(change.after),
    }


def _row(change: "RowChange") -> tuple[str, str, str]:
    before, after = change.before, change.after
    if before is None or after is None:
        row = after if before is None else before
        shown = " ".join(f"{name}={value_text(name, v)}" for name, v in (row or {}).items())
        return (change.table, "added" if before is None else "removed", shown)
    # The first column is of the key: it says which row.
    shown = " ".join(
        f"{name}={value_text(name, old)}"
        if old == after[name]
        else f"{name}={value_text(name, old)}->{value_text(name, after[name])}"
        for place, (name, old) in enumerate(before.items())
        if place == 0 or old != after[name] or name in ("name", "kind", "chunk_id")
    )
    return (change.table, "changed", shown)
