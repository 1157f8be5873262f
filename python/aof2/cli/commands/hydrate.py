"""``aof2 hydrate``: segments come back to the hot tier."""

import click

from aof2.cli.moving import move, moving_arguments, print_moved
from aof2.cli.options import examples
from aof2.cli.output import Output


@click.command(
    "hydrate",
    epilog=examples(
        "aof2 hydrate data/events 0",
        "aof2 hydrate data/events --all",
    ),
)
@moving_arguments
def command(log: str, segments: tuple[int, ...], all_of_them: bool, as_json: bool) -> None:
    """Bring compressed segments back as files.

    From the local disk, or from the object store if only that has them. The file is the
    one that was compressed, byte by byte, and its checksum is verified.
    The compressed copy stays, so that leaving again costs nothing. Needs the writer
    lock. A writer that is opened with tiers keeps to its budget: what is too much leaves
    again.
    """
    out = Output(as_json=as_json)
    moved, moved_bytes = move(
        out,
        log,
        segments,
        moves=lambda segment: segment.residency != "hot",
        what="bringing back",
        all_of_them=all_of_them,
        step=lambda writer, segment_id: writer.hydrate(segment_id),
    )
    print_moved(
        out,
        moved,
        moved_bytes,
        done="came back to the hot tier",
        nothing="nothing to bring back: no such segment is warm or cold only",
    )
