"""``aof2 catalog tree``: databases with their snapshots and forks below them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.catalogs import at_option, open_reader, root_argument, row_object, state
from aof2.cli.options import examples, json_option
from aof2.cli.output import Output

if TYPE_CHECKING:
    from aof2 import CatalogView
    from aof2.catalog import Database, Snapshot


@click.command("tree", epilog=examples("aof2 catalog tree data", "aof2 catalog tree data --at 12"))
@root_argument
@at_option
@json_option
def command(root: str, at: int | None, as_json: bool) -> None:
    """Show databases with their snapshots and forks below them."""
    view = state(open_reader(root), at)
    out = Output(as_json=as_json)
    known = {db.db_id: db for db in view.databases()}
    # A fork whose parent was removed stands for itself.
    tops = [db for db in known.values() if db.origin_db not in known]
    if as_json:
        for db in tops:
            out.object(_object(view, known, db))
        return
    for db in tops:
        for line in _lines(view, known, db):
            out.line(line)


def _lines(
    view: "CatalogView", known: "dict[int, Database]", db: "Database", depth: int = 0
) -> list[str]:
    status = "" if db.status == "active" else f", {db.status}"
    fork = f", fork at {_place(db.kind, db.origin_generation or 0, db.origin_offset or 0)}"
    lines = [f"{'  ' * depth}{db.name} ({db.kind} {db.db_id}{status}{fork if depth else ''})"]
    for held in view.snapshots(db.db_id):
        if held.fork_db is None:
            lines.append(f"{'  ' * (depth + 1)}@{held.name} ({_held(db, held)})")
        elif held.fork_db in known:
            lines += _lines(view, known, known[held.fork_db], depth + 1)
    return lines


def _held(db: "Database", held: "Snapshot") -> str:
    return f"snapshot {held.snapshot_id} at {_place(db.kind, held.generation, held.offset)}"


def _place(kind: str, generation: int, offset: int) -> str:
    return f"offset {offset}" if kind == "log" else f"checkpoint {generation}"


def _object(view: "CatalogView", known: "dict[int, Database]", db: "Database") -> dict[str, Any]:
    held = view.snapshots(db.db_id)
    return {
        **row_object(asdict(db)),
        "snapshots": [row_object(asdict(each)) for each in held if each.fork_db is None],
        "forks": [
            _object(view, known, known[each.fork_db])
            for each in held
            if each.fork_db is not None and each.fork_db in known
        ],
    }
