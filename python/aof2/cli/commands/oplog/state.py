"""``aof2 oplog state``: what the operations up to one add up to."""

import click

from aof2.cli.catalogs import (
    GENERATION,
    open_reader,
    root_argument,
    row_object,
    state,
    value_text,
)
from aof2.cli.options import examples, json_option
from aof2.cli.output import Column, Output

_COLUMNS = (Column("table"), Column("row"))


@click.command(
    "state",
    epilog=examples("aof2 oplog state data --at 120", "aof2 oplog state data --at 120.0 --json"),
)
@root_argument
@click.option(
    "--at",
    type=GENERATION,
    required=True,
    metavar="ID",
    help="A generation (12), or an operation (12.0), whose batch is meant.",
)
@json_option
def command(root: str, at: int, as_json: bool) -> None:
    """Print all rows of all tables as they were after an operation."""
    view = state(open_reader(root), at)
    out = Output(as_json=as_json)
    if as_json:
        out.object(
            {
                "generation": view.generation,
                "tables": {
                    table: [row_object(row) for row in view.rows(table)] for table in view.tables()
                },
            }
        )
        return
    out.table(
        _COLUMNS,
        [
            (table, " ".join(f"{name}={value_text(name, value)}" for name, value in row.items()))
            for table in view.tables()
            for row in view.rows(table)
        ],
    )
