"""``aof2 seal``: the active segment gets its footer."""

from typing import TYPE_CHECKING

import click

from aof2.cli.handles import open_writer
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.segment_rows import segment_object
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2 import Segment


@click.command(
    "seal",
    epilog=examples(
        "aof2 seal data/events",
        "aof2 seal data/events --ext-id 42",
    ),
)
@log_argument
@click.option(
    "--ext-id",
    type=click.IntRange(0, 2**64 - 1),
    metavar="N",
    help="Your identifier for the segment, stored in its footer (full layout).",
)
@json_option
def command(log: str, ext_id: int | None, as_json: bool) -> None:
    """Close the active segment so that it can be trimmed.

    The segment gets its footer, although it is not full, and never changes again; the
    next record starts a new one. Needs the writer lock.
    """
    out = Output(as_json=as_json)
    with open_writer(log) as writer:
        before = {s.segment_id for s in writer.segments() if s.is_sealed}
        if ext_id is not None:
            writer.set_ext_id(ext_id)
        writer.seal()
        sealed = [s for s in writer.segments() if s.is_sealed and s.segment_id not in before]
    _print(out, sealed)


def _print(out: Output, sealed: "list[Segment]") -> None:
    if out.as_json:
        out.object({"sealed": [segment_object(segment) for segment in sealed]})
        return
    for s in sealed:
        size = f"{plural(s.record_count, 'record')}, {human_bytes(s.used_bytes)}"
        out.line(f"sealed segment {s.segment_id}: {size}")
    if not sealed:
        out.line("nothing to seal: no record since the last one")
