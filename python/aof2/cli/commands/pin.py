"""``aof2 pin``: segments that stay in the hot tier."""

import click

from aof2.cli.errors import usage
from aof2.cli.handles import open_writer, tiers_of
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.units import plural


@click.command(
    "pin",
    epilog=examples(
        "aof2 pin data/events 0 1",
        "aof2 pin --remove data/events 0",
    ),
)
@log_argument
@click.argument("segments", type=click.IntRange(0, 2**64 - 1), nargs=-1, metavar="SEGMENT...")
@click.option("--remove", is_flag=True, help="Let them leave again instead.")
@json_option
def command(log: str, segments: tuple[int, ...], remove: bool, as_json: bool) -> None:
    """Keep segments in the hot tier, or no longer.

    A pinned segment is brought back if need be and stays a mapped file, whatever the
    budget says, also when the log is opened again. Needs the writer lock.
    """
    out = Output(as_json=as_json)
    if not segments:
        raise usage("say which segments", "aof2 segments lists them")
    changed = 0
    with (
        open_writer(log, tiers=tiers_of(log, None)) as writer,
        out.progress("unpinning" if remove else "pinning") as progress,
    ):
        before = writer.tiers().pinned_segments
        for done, segment_id in enumerate(segments):
            progress(done, len(segments))
            if remove:
                changed += int(writer.unpin(segment_id))
            else:
                writer.pin(segment_id)
        after = writer.tiers().pinned_segments
    if not remove:
        changed = after - before
    if as_json:
        out.object({"changed_count": changed, "pinned_count": after})
        return
    out.line(
        f"{plural(changed, 'segment')} {'unpinned' if remove else 'pinned'}, "
        f"{plural(after, 'segment')} pinned now"
    )
