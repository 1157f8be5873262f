"""``aof2 catalog rebuild``: starts a catalog again whose operation log is gone."""

from dataclasses import asdict

import click

from aof2.cli.catalogs import root_argument
from aof2.cli.errors import usage
from aof2.cli.options import NAME, examples, json_option
from aof2.cli.output import Output


@click.command(
    "rebuild", epilog=examples("aof2 catalog rebuild data", "aof2 catalog rebuild data --yes")
)
@root_argument
@click.option("--actor", type=NAME, help="Who decides, for the audit. [default: machine:process]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def command(root: str, actor: str | None, yes: bool, as_json: bool) -> None:
    """Start a catalog again whose operation log is gone.

    What is left of the old one is set aside, and the logs of the directory are adopted. Says
    what cannot come back. Refused while the operation log is there.
    """
    from aof2 import Catalog

    out = Output(as_json=as_json)
    if not yes:
        if not out.is_terminal:
            raise usage("rebuild forgets everything but the logs", "--yes says that this is meant")
        click.confirm(f"forget everything but the logs of {root}?", abort=True)
    catalog, report = Catalog.rebuild(root, actor=actor)
    catalog.close()
    if as_json:
        out.object(asdict(report))
        return
    for name in report.set_aside:
        out.line(f"set aside {name}")
    for name in report.adopted.logs:
        out.line(f"adopted {name}")
    for name, why in report.adopted.skipped:
        out.note(f"left out {name}: {why}")
    for what in report.lost:
        out.line(f"lost: {what}")
