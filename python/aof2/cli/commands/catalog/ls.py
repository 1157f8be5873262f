"""``aof2 catalog ls``: the logs and page stores of a catalog."""

from dataclasses import asdict

import click

from aof2.cli.catalogs import at_option, open_reader, root_argument, row_object, state, value_text
from aof2.cli.options import examples, json_option
from aof2.cli.output import Column, Output

_COLUMNS = (
    Column("db", is_number=True),
    Column("name", is_name=True),
    Column("kind"),
    Column("status"),
    Column("fork of", is_number=True, leaves=2),
    Column("snapshots", is_number=True, leaves=1),
    Column("created", is_time=True, leaves=3),
)


@click.command("ls", epilog=examples("aof2 catalog ls data", "aof2 catalog ls data --all --json"))
@root_argument
@click.option("-a", "--all", "with_dropped", is_flag=True, help="Show dropped ones, too.")
@at_option
@json_option
def command(root: str, with_dropped: bool, at: int | None, as_json: bool) -> None:
    """List the logs and page stores of a catalog."""
    view = state(open_reader(root), at)
    out = Output(as_json=as_json)
    rows = []
    for db in view.databases():
        if db.status == "dropped" and not with_dropped:
            continue
        held = len(view.snapshots(db.db_id))
        if as_json:
            out.object({**row_object(asdict(db)), "snapshots": held})
            continue
        origin = value_text("", db.origin_db)
        created = value_text("", db.created)
        rows.append((str(db.db_id), db.name, db.kind, db.status, origin, str(held), created))
    if not as_json:
        out.table(_COLUMNS, rows)
