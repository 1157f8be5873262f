"""``aof2 fork``: a log that begins with another log's records."""

from typing import TYPE_CHECKING

import click

from aof2.cli.errors import usage
from aof2.cli.options import LOG_PATH, NAME, examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.roots import at_option, log_in_root, name_in, place, root_option
from aof2.cli.units import human_count

if TYPE_CHECKING:
    from aof2._types import StartLike


@click.command(
    "fork",
    epilog=examples(
        "aof2 fork data/events data/trial",
        "aof2 fork data/events data/trial --at 1200",
        "aof2 fork data/events data/trial --snapshot before",
    ),
)
@log_argument
@click.argument("new", type=LOG_PATH, metavar="NEW")
@at_option
@click.option(
    "--snapshot", type=NAME, metavar="NAME", help="Where this snapshot is, instead of --at."
)
@root_option
@json_option
def command(
    log: str,
    new: str,
    at: "StartLike | None",
    snapshot: str | None,
    root: str | None,
    as_json: bool,
) -> None:
    """Make a log that begins with the records of another.

    NEW is the directory to make, in the same root as LOG. It has the records of LOG
    before the place, under the same offsets, ids and timestamps, and then goes its own
    way. Nothing is copied, and a writer of LOG goes on meanwhile; what it has not made
    durable yet is not part of the fork.
    """
    if at is not None and snapshot is not None:
        raise usage("--at and --snapshot exclude each other")
    out = Output(as_json=as_json)
    found = log_in_root(log, root)
    to = name_in(found.root, new)
    made = found.root.fork(found.name, to, snapshot if snapshot is not None else place(log, at))
    if as_json:
        facts = {
            "name": made.name,
            "path": made.path,
            "stream_id": f"{made.stream_id:016x}",
            "parent": found.name,
            "offset": made.offset,
        }
        out.object(facts)
        return
    out.line(f"forked {found.name} at offset {human_count(made.offset)}: {made.path}")
