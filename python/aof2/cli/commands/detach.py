"""``aof2 detach``: a fork comes to stand for itself."""

import click

from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.roots import log_in_root, root_option
from aof2.cli.units import plural


@click.command("detach", epilog=examples("aof2 detach data/trial"))
@log_argument
@root_option
@json_option
def command(log: str, root: str | None, as_json: bool) -> None:
    """Copy what a fork shares into the fork.

    It then needs the logs that it was forked from no more, and they can be dropped for
    good. Its records keep offsets, ids and timestamps. Needs the writer lock of LOG.
    """
    out = Output(as_json=as_json)
    found = log_in_root(log, root)
    with out.progress("copying"):
        copied = found.root.detach(found.name)
    if as_json:
        out.object({"name": found.name, "copied_count": copied})
        return
    out.line(f"detached {found.name}: {plural(copied, 'record')} copied")
