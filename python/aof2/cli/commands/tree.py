"""``aof2 tree``: which log was forked from which."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.options import examples, json_option
from aof2.cli.output import Output
from aof2.cli.roots import expiry_text, open_root, root_argument, snapshot_object
from aof2.cli.units import human_count

if TYPE_CHECKING:
    from aof2 import LogNode, LogTree


@click.command("tree", epilog=examples("aof2 tree data", "aof2 tree --json data | jq .name"))
@root_argument
@json_option
def command(root: str, as_json: bool) -> None:
    """Show the logs of a directory with their snapshots and forks.

    ROOT is the directory that the logs are in. A dropped log is shown while forks still
    read it. --json prints one object per log, parents before their forks.
    """
    out = Output(as_json=as_json)
    tree = open_root(root).tree()
    if as_json:
        for node in tree:
            out.object(_object(node))
        return
    for node in tree.roots():
        _print(out, tree, node, 0)
    if not tree:
        out.note(f"there is no log in {root}")


def _print(out: Output, tree: "LogTree", node: "LogNode", depth: int) -> None:
    indent = "  " * depth
    out.line(f"{indent}{node.name}{_origin(node, is_below=depth > 0)}")
    for taken in node.snapshots:
        offset = human_count(taken.offset)
        out.line(f"{indent}  @{taken.name} at offset {offset}{expiry_text(taken)}")
    for fork in tree.forks_of(node.stream_id):
        if _parent(tree, fork) is node:
            _print(out, tree, fork, depth + 1)


def _parent(tree: "LogTree", fork: "LogNode") -> "LogNode":
    """Find the log that a fork is shown below: copies of a log have the same id."""
    known = [node for node in tree if node.stream_id == fork.parent]
    return next((node for node in known if node.name == fork.parent_name), known[0])


def _origin(node: "LogNode", *, is_below: bool) -> str:
    dropped = " (dropped)" if node.is_dropped else ""
    if node.fork_offset is None:
        return dropped
    parent = "" if is_below else f" {node.parent_name}, which is not here,"
    return f"{dropped}: forked{' from' if parent else ''}{parent} at offset {human_count(node.fork_offset)}"


def _object(node: "LogNode") -> dict[str, Any]:
    return {
        "name": node.name,
        "path": node.path,
        "stream_id": f"{node.stream_id:016x}",
        "parent": None if node.parent is None else f"{node.parent:016x}",
        "parent_name": node.parent_name,
        "fork_offset": node.fork_offset,
        "depth": node.depth,
        "is_dropped": node.is_dropped,
        "snapshots": [snapshot_object(taken) for taken in node.snapshots],
        "holders": node.holders,
    }
