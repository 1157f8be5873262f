"""``aof2 manifest``: what happened to the segments of a log."""

import click

from aof2.cli.commands.manifest import inspect, snapshot, verify
from aof2.cli.options import examples


@click.group(
    "manifest",
    epilog=examples(
        "aof2 manifest inspect data/events",
        "aof2 manifest inspect data/events --segment 3 --follow",
        "aof2 manifest verify data/events",
    ),
)
def command() -> None:
    """Look at what a log recorded about its segments.

    A log has a manifest if it was opened with manifest_mode "shadow" or "enabled".
    """


for each in (inspect, snapshot, verify):
    command.add_command(each.command)
