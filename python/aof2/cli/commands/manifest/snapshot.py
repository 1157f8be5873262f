"""``aof2 manifest snapshot``: replay starts here from now on."""

import click

from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output


@click.command("snapshot", epilog=examples("aof2 manifest snapshot data/events"))
@log_argument
@json_option
def command(log: str, as_json: bool) -> None:
    """Write a snapshot, so that replay starts there.

    Opens the log for writing: a running writer takes snapshots by itself. What the
    manifest missed while it was switched off is recorded first.
    """
    from aof2 import Aof, Manifest

    Manifest.open(log)  # only a log that has a manifest gets a snapshot
    with Aof.open(log, manifest_mode="enabled") as writer:
        snapshot_id = writer.snapshot_manifest()
        path = writer.path
    out = Output(as_json=as_json)
    if as_json:
        out.object({"path": path, "snapshot_id": snapshot_id})
    else:
        out.line(f"snapshot {snapshot_id} of {path}")
