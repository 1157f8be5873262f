"""``aof2 upload``: segments get into the object store."""

import click

from aof2.cli.errors import usage
from aof2.cli.moving import move, moving_arguments, print_moved
from aof2.cli.options import examples
from aof2.cli.output import Output


@click.command(
    "upload",
    epilog=examples(
        "aof2 upload data/events --all",
        "aof2 upload data/events 0 1 --cold s3://bucket/logs",
    ),
)
@moving_arguments
@click.option(
    "--cold",
    metavar="URL",
    help="Where to: s3://bucket/prefix. By default where the log's segments are already.",
)
def command(
    log: str, segments: tuple[int, ...], all_of_them: bool, as_json: bool, cold: str | None
) -> None:
    """Archive segments in an object store.

    Compresses what is not compressed yet, uploads it and checks what arrived. Only sealed
    segments are archived: aof2 seal closes the active one. The endpoint, the region and
    the credentials come from the environment: AOF2_COLD_ENDPOINT, AOF2_COLD_REGION, and
    whatever the AWS tools read. Needs the writer lock; a running writer uploads by itself
    if it was opened with a cold tier.
    """
    import aof2

    out = Output(as_json=as_json)
    if cold is None and aof2.cold_location(log) is None:
        raise usage("this log has no object store yet", "name one with --cold s3://bucket/prefix")
    moved, moved_bytes = move(
        out,
        log,
        segments,
        moves=lambda segment: segment.cold_bytes is None,
        what="uploading",
        all_of_them=all_of_them,
        step=lambda writer, segment_id: writer.upload(segment_id),
        cold=cold,
    )
    print_moved(
        out,
        moved,
        moved_bytes,
        done="archived",
        nothing="nothing to upload: every such segment is archived",
    )
