"""``aof2 drop``: a log goes."""

import click

from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.roots import log_in_root, root_option


@click.command(
    "drop",
    epilog=examples(
        "aof2 drop data/trial",
        "aof2 drop data/events --purge",
    ),
)
@log_argument
@click.option("--purge", is_flag=True, help="Only if no fork reads it and it has no snapshots.")
@root_option
@json_option
def command(log: str, purge: bool, root: str | None, as_json: bool) -> None:
    """Drop a log with all its records.

    The name is free at once. What forks read of the log stays in ROOT/.origins until
    they go; without forks, everything is deleted. A log that is being written is not
    dropped.
    """
    out = Output(as_json=as_json)
    found = log_in_root(log, root)
    holders: list[str] = []
    if purge:
        found.root.purge(found.name)
    else:
        holders = found.root.drop(found.name)
    if as_json:
        out.object({"dropped": found.name, "holders": holders})
        return
    held = f"; what is read stays: {', '.join(holders)}" if holders else ""
    out.line(f"dropped {found.name}{held}")
