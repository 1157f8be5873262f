"""``aof2 catalog``: what was decided about the logs of a directory."""

import click

from aof2.cli.commands.catalog import adopt, changes, jobs, ls, rebuild, table, tree, verify
from aof2.cli.options import examples


@click.group(
    "catalog",
    epilog=examples(
        "aof2 catalog adopt data",
        "aof2 catalog ls data",
        "aof2 catalog table data snapshot_index --at 120",
    ),
)
def command() -> None:
    """Look at the catalog of a directory of logs.

    A ROOT is a directory of logs and page stores; its catalog is in .aof2 below it. All but
    adopt and rebuild read only, beside a writer.
    """


for each in (adopt, changes, jobs, ls, rebuild, table, tree, verify):
    command.add_command(each.command)
