"""``aof2 oplog show``: the operations of a range."""

from typing import TYPE_CHECKING

import click

from aof2.cli.catalogs import (
    GENERATION,
    OPERATION_COLUMNS,
    open_reader,
    operation_object,
    operation_row,
    root_argument,
)
from aof2.cli.options import NAME, examples, json_option
from aof2.cli.output import Output

if TYPE_CHECKING:
    from aof2.catalog import Operation


@click.command(
    "show",
    epilog=examples(
        "aof2 oplog show data",
        "aof2 oplog show data --from 120 --to 140",
        "aof2 oplog show data --type DropSnapshot --actor alice --json",
    ),
)
@root_argument
@click.option("--from", "start", type=GENERATION, metavar="GENERATION", help="Start here.")
@click.option("--to", "end", type=GENERATION, metavar="GENERATION", help="Stop before this one.")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Only of this type; may be repeated."
)
@click.option("--actor", type=NAME, help="Only what this one decided.")
@json_option
def command(
    root: str,
    start: int | None,
    end: int | None,
    types: tuple[str, ...],
    actor: str | None,
    as_json: bool,
) -> None:
    """Print who decided what, and when, as far back as the log goes."""
    reader = open_reader(root)
    out = Output(as_json=as_json)

    def wanted(operation: "Operation") -> bool:
        is_type = not types or operation.type in types
        return is_type and (actor is None or operation.actor == actor)

    operations = filter(wanted, reader.operations(start, end))
    if as_json:
        for operation in operations:
            out.object(operation_object(operation))
    else:
        out.table(OPERATION_COLUMNS, [operation_row(operation) for operation in operations])
