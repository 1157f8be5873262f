"""``aof2 catalog adopt``: registers the logs of a directory."""

from dataclasses import asdict

import click

from aof2.cli.catalogs import no_catalog, root_argument
from aof2.cli.options import NAME, examples, json_option
from aof2.cli.output import Output


@click.command(
    "adopt", epilog=examples("aof2 catalog adopt data", "aof2 catalog adopt data --actor alice")
)
@root_argument
@click.option("--actor", type=NAME, help="Who decides, for the audit. [default: machine:process]")
@json_option
def command(root: str, actor: str | None, as_json: bool) -> None:
    """Register the logs of a directory that its catalog does not know.

    Makes the catalog if there is none. Nothing is written into the logs; they may be open
    meanwhile. Opens the catalog for writing, which one process at a time can.
    """
    from pathlib import Path

    from aof2 import Catalog, NotALog
    from aof2.cli.errors import CommandError, ExitCode

    if not Path(root).is_dir():
        message = f"{root} is not a directory"
        raise CommandError(ExitCode.NOT_FOUND, "not_found", message, "check the path", path=root)
    try:
        catalog = Catalog.open(root, actor=actor)
    except NotALog as error:
        raise no_catalog(root) from error
    with catalog:
        adopted = catalog.adopt_logs()
    out = Output(as_json=as_json)
    if as_json:
        out.object(asdict(adopted))
        return
    for name in adopted.logs:
        out.line(f"adopted {name}")
    for name, why in adopted.skipped:
        out.note(f"left out {name}: {why}")
    if not adopted.logs:
        out.line("there is no new log")
