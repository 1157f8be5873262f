"""``aof2 catalog changes``: the change feed."""

import click

from aof2.cli.catalogs import (
    GENERATION,
    OPERATION_COLUMNS,
    open_reader,
    print_batch,
    root_argument,
)
from aof2.cli.options import NAME, examples, json_option
from aof2.cli.output import Output


@click.command(
    "changes",
    epilog=examples(
        "aof2 catalog changes data --from 120",
        "aof2 catalog changes data --name search --follow --json",
    ),
)
@root_argument
@click.option(
    "--name",
    type=NAME,
    metavar="READER",
    help="Go on where this reader stopped, and acknowledge what is printed.",
)
@click.option("--from", "start", type=GENERATION, metavar="GENERATION", help="Start here.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@json_option
def command(root: str, name: str | None, start: int | None, follow: bool, as_json: bool) -> None:
    """Print every change once, in order.

    Without --name nothing is written: the reader keeps its place itself. A batch is
    acknowledged when it was printed, so one that was cut short is printed again.
    """
    reader = open_reader(root)
    out = Output(as_json=as_json)
    wait = None if follow else 0
    if name is None:
        feed = reader.changes(start=start, timeout=wait)
    else:
        feed = reader.feed(name, start=start, timeout=wait)
    with feed:
        if not as_json:
            out.line_of_cells(column.name for column in OPERATION_COLUMNS)
            out.flush()
        for batch in feed:
            print_batch(out, batch)
            if name is not None:
                feed.acknowledge(batch.generation)
