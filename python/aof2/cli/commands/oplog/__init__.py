"""``aof2 oplog``: the operation log of a catalog."""

import click

from aof2.cli.commands.oplog import diff, show, state, tail, verify
from aof2.cli.options import examples


@click.group(
    "oplog",
    epilog=examples(
        "aof2 oplog show data --type PublishSnapshot",
        "aof2 oplog tail data -f",
        "aof2 oplog diff data 120 140",
    ),
)
def command() -> None:
    """Look at the operation log of a catalog: who decided what, and when.

    A ROOT is a directory of logs and page stores with a catalog. Reads only, beside a writer.
    """


for each in (diff, show, state, tail, verify):
    command.add_command(each.command)
