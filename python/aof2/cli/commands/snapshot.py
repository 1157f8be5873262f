"""``aof2 snapshot``: places of a log with a name."""

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from aof2.cli.errors import usage
from aof2.cli.options import AGE, NAME, examples, json_option, log_argument
from aof2.cli.output import Column, Output
from aof2.cli.roots import (
    LogInRoot,
    at_option,
    expiry_text,
    log_in_root,
    place,
    root_option,
    snapshot_object,
)
from aof2.cli.times import time_text
from aof2.cli.units import human_count

if TYPE_CHECKING:
    from aof2._types import ForkAtLike, StartLike

_COLUMNS = (
    Column("snapshot", is_name=True),
    Column("offset", is_number=True),
    Column("taken", is_time=True, leaves=2),
    Column("kept until", is_time=True, leaves=1),
)


@click.command(
    "snapshot",
    epilog=examples(
        "aof2 snapshot data/events before",
        "aof2 snapshot data/events noon --at 2026-01-31T12:00 --expires 7d",
        "aof2 snapshot data/events --list",
        "aof2 snapshot data/events before --drop",
    ),
)
@log_argument
@click.argument("name", type=NAME, required=False)
@at_option
@click.option(
    "--expires", type=AGE, metavar="AGE", help="Let it go by itself after this time: 7d, 12h."
)
@click.option("--list", "lists", is_flag=True, help="List the snapshots, as without NAME.")
@click.option("--drop", is_flag=True, help="Drop the snapshot instead.")
@root_option
@json_option
def command(
    log: str,
    name: str | None,
    at: "StartLike | None",
    expires: int | None,
    lists: bool,
    drop: bool,
    root: str | None,
    as_json: bool,
) -> None:
    """Name a place of a log, list such places, or drop one.

    The records before a snapshot stay until it is dropped or expires, whatever
    retention says: aof2 fork --snapshot makes a log of them. Works while a writer runs.
    """
    takes = name is not None and not lists and not drop
    if not takes and (at is not None or expires is not None):
        raise usage("--at and --expires are for taking a snapshot", "name it")
    if lists and (drop or name is not None):
        raise usage("--list takes neither a NAME nor --drop")
    if drop and name is None:
        raise usage("say which snapshot to drop", "aof2 snapshot LOG --list lists them")
    if expires == 0:
        raise usage("--expires must be at least 1ms")
    out = Output(as_json=as_json)
    found = log_in_root(log, root)
    if name is None:
        _list(out, found)
    elif drop:
        found.root.drop_snapshot(found.name, name)
        if as_json:
            out.object({"dropped": name})
        else:
            out.line(f"dropped snapshot {name} of {found.name}")
    else:
        _take(out, found, name, place(log, at), expires)


def _take(out: Output, log: LogInRoot, name: str, at: "ForkAtLike", expires: int | None) -> None:
    kept_for = None if expires is None else _span(expires)
    taken = log.root.snapshot(log.name, name, at, kept_for)
    if out.as_json:
        out.object(snapshot_object(taken))
        return
    offset = human_count(taken.offset)
    out.line(f"snapshot {taken.name} of {log.name} at offset {offset}{expiry_text(taken)}")


def _span(ms: int) -> timedelta:
    try:
        return timedelta(milliseconds=ms)
    except OverflowError:
        raise usage("--expires is longer than time can be counted", "leave it out") from None


def _list(out: Output, log: LogInRoot) -> None:
    found = log.root.snapshots(log.name)
    if out.as_json:
        for taken in found:
            out.object(snapshot_object(taken))
        return
    rows = [
        (
            taken.name,
            human_count(taken.offset),
            time_text(taken.created_at_ms),
            time_text(taken.expires_at_ms),
        )
        for taken in found
    ]
    if rows:
        out.table(_COLUMNS, rows)
    else:
        out.note(f"{log.name} has no snapshots")
