"""``aof2 evict``: segments leave the hot tier."""

import click

from aof2.cli.moving import move, moving_arguments, print_moved
from aof2.cli.options import examples
from aof2.cli.output import Output


@click.command(
    "evict",
    epilog=examples(
        "aof2 evict data/events 0 1 2",
        "aof2 evict data/events --all",
    ),
)
@moving_arguments
def command(log: str, segments: tuple[int, ...], all_of_them: bool, as_json: bool) -> None:
    """Compress segments and remove their files.

    Every record stays readable under its id and offset. The compressed copy is verified
    before the file goes. Only sealed segments move: aof2 seal closes the active one. A
    log that keeps no manifest starts one. Needs the writer lock; a running writer evicts
    by itself if it was opened with tiers.
    """
    out = Output(as_json=as_json)
    moved, moved_bytes = move(
        out,
        log,
        segments,
        moves=lambda segment: segment.residency == "hot",
        what="compressing",
        all_of_them=all_of_them,
        step=lambda writer, segment_id: writer.evict(segment_id),
    )
    print_moved(
        out,
        moved,
        moved_bytes,
        done="left the hot tier",
        nothing="nothing to evict: no such sealed segment is hot",
    )
