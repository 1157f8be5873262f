"""``aof2 catalog table``: the rows of a table."""

import click

from aof2.cli.catalogs import (
    at_option,
    open_reader,
    root_argument,
    row_object,
    rows_of,
    state,
    value_text,
)
from aof2.cli.options import examples, json_option
from aof2.cli.output import Column, Output


@click.command(
    "table",
    epilog=examples(
        "aof2 catalog table data db",
        "aof2 catalog table data snapshot_index --at 120",
        "aof2 catalog table data",
    ),
)
@root_argument
@click.argument("name", required=False)
@at_option
@json_option
def command(root: str, name: str | None, at: int | None, as_json: bool) -> None:
    """Print the rows of a table, now or after a generation.

    Without a name, the tables and how many rows each has.
    """
    view = state(open_reader(root), at)
    out = Output(as_json=as_json)
    if name is None:
        counts = view.tables()
        if as_json:
            out.object({"generation": view.generation, "tables": counts})
        else:
            columns = (Column("table"), Column("rows", is_number=True))
            out.table(columns, [(table, str(count)) for table, count in counts.items()])
        return
    rows = rows_of(view, name)
    if as_json:
        for row in rows:
            out.object(row_object(row))
        return
    names = view.table(name).columns
    columns_ = [Column(column, leaves=place) for place, column in enumerate(names)]
    out.table(columns_, [[value_text(key, row[key]) for key in names] for row in rows])
