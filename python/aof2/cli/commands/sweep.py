"""``aof2 sweep``: what nobody needs any more of forks and dropped logs."""

from dataclasses import asdict

import click

from aof2.cli.options import examples, json_option
from aof2.cli.output import Output
from aof2.cli.roots import open_root, root_argument
from aof2.cli.units import plural


@click.command("sweep", epilog=examples("aof2 sweep data"))
@root_argument
@json_option
def command(root: str, as_json: bool) -> None:
    """Take away what crashes and dropped logs left.

    ROOT is the directory that the logs are in. Only what is certainly not needed goes:
    forks that were never finished, holds of forks and snapshots that are gone, and
    segments of dropped logs that nobody reads.
    """
    out = Output(as_json=as_json)
    swept = open_root(root).sweep()
    if as_json:
        out.object(asdict(swept))
        return
    holds, segments = plural(swept.holds, "hold"), plural(swept.segments, "segment")
    directories = "directory" if swept.directories == 1 else "directories"
    out.line(f"removed {holds}, {segments}, {swept.directories:,} {directories}")
