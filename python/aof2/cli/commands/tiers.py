"""``aof2 tiers``: which segments are hot, warm and cold, and what that saves."""

from typing import TYPE_CHECKING, Any

import click

from aof2.cli.handles import is_address, open_reader
from aof2.cli.options import examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.segment_rows import TIER_COLUMNS, segment_object, tier_row
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aof2 import Segment


@click.command(
    "tiers",
    epilog=examples(
        "aof2 tiers data/events",
        "aof2 tiers --json data/events | jq '.used_bytes / .stored_bytes'",
    ),
)
@log_argument
@json_option
def command(log: str, as_json: bool) -> None:
    """Show which segments are hot, warm and cold.

    A hot segment is a file that is mapped; a warm one is compressed, a cold one only in
    the object store, and both are read all the same. A segment may have copies in several
    tiers. Works while a writer runs, and asks the object store nothing.
    """
    import aof2

    out = Output(as_json=as_json)
    with open_reader(log) as reader:
        segments = reader.segments()
        archived = reader.watermarks().archived
    location = None if is_address(log) else aof2.cold_location(log)
    totals = _totals(segments)
    totals["archived_offset"] = archived
    totals["cold_url"] = None if location is None else location.url
    if as_json:
        out.object({**totals, "segments": [segment_object(segment) for segment in segments]})
        return
    out.table(TIER_COLUMNS, [tier_row(segment) for segment in segments])
    out.line(_summary(totals))


def _totals(segments: "Sequence[Segment]") -> dict[str, Any]:
    hot = [segment for segment in segments if segment.residency == "hot"]
    warm = [segment for segment in segments if segment.warm_bytes is not None]
    cold = [segment for segment in segments if segment.cold_bytes is not None]
    only_cold = [segment for segment in segments if segment.residency == "cold"]
    hot_bytes = sum(segment.used_bytes for segment in hot)
    warm_bytes = sum(segment.warm_bytes or 0 for segment in warm)
    return {
        "segment_count": len(segments),
        "hot_count": len(hot),
        "warm_count": len(segments) - len(hot) - len(only_cold),
        "cold_count": len(only_cold),
        "archived_count": len(cold),
        "copy_count": len(warm),
        "used_bytes": sum(segment.used_bytes for segment in segments),
        "hot_bytes": hot_bytes,
        "warm_bytes": warm_bytes,
        "cold_bytes": sum(segment.cold_bytes or 0 for segment in cold),
        "stored_bytes": hot_bytes + warm_bytes,
    }


def _summary(totals: dict[str, Any]) -> str:
    hot = f"{plural(totals['hot_count'], 'segment')} hot: {human_bytes(totals['hot_bytes'])}"
    warm = f"{plural(totals['warm_count'], 'segment')} warm"
    copies = (
        f"{plural(totals['copy_count'], 'compressed file')}: {human_bytes(totals['warm_bytes'])}"
    )
    stored = f"{human_bytes(totals['used_bytes'])} stored in {human_bytes(totals['stored_bytes'])}"
    lines = f"{hot}; {warm}; {copies}; {stored}"
    if totals["cold_url"] is None:
        return lines
    cold = f"{plural(totals['cold_count'], 'segment')} cold"
    archived = (
        f"{plural(totals['archived_count'], 'segment')} archived in {totals['cold_url']}: "
        f"{human_bytes(totals['cold_bytes'])}, records below {totals['archived_offset']}"
    )
    return f"{lines}\n{cold}; {archived}"
