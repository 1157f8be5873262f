"""``aof2 oplog tail``: the last operations, and those that come."""

import click

from aof2.cli.catalogs import OPERATION_COLUMNS, open_reader, print_batch, root_argument
from aof2.cli.options import examples, json_option
from aof2.cli.output import Output


@click.command(
    "tail", epilog=examples("aof2 oplog tail data -n 20", "aof2 oplog tail data -f --json")
)
@root_argument
@click.option(
    "-n",
    "--batches",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Start with the last N batches.",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@json_option
def command(root: str, batches: int, follow: bool, as_json: bool) -> None:
    """Print the operations of the last batches, and follow with -f."""
    reader = open_reader(root)
    out = Output(as_json=as_json)
    earliest, end = reader.generations()
    start = max(earliest, end - batches)
    with reader.changes(start=start, timeout=None if follow else 0) as feed:
        if not as_json:
            out.line_of_cells(column.name for column in OPERATION_COLUMNS)
            out.flush()
        for batch in feed:
            print_batch(out, batch)
