"""What ``aof2 evict``, ``hydrate`` and ``upload`` have in common: segments that move."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aof2.cli.errors import CommandError, ExitCode, usage
from aof2.cli.handles import open_writer, tiers_of
from aof2.cli.options import json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.segment_rows import TIER_COLUMNS, segment_object, tier_row
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2 import Aof, Segment

F = TypeVar("F", bound=Callable[..., Any])


def moving_arguments(function: F) -> F:
    """Add the log, its segments, ``--all`` and ``--json``."""
    function = json_option(function)
    function = click.option(
        "--all", "all_of_them", is_flag=True, help="All sealed segments instead of some."
    )(function)
    function = click.argument(
        "segments", type=click.IntRange(0, 2**64 - 1), nargs=-1, metavar="[SEGMENT]..."
    )(function)
    return log_argument(function)


def move(
    out: Output,
    log: str,
    segment_ids: tuple[int, ...],
    *,
    moves: "Callable[[Segment], bool]",
    what: str,
    all_of_them: bool,
    step: "Callable[[Aof, int], int]",
    cold: str | None = None,
) -> "tuple[list[Segment], int]":
    """Move the segments that `moves` says can, and return them and their bytes.

    Nothing moves unless all that were named are there.
    """
    if bool(segment_ids) == all_of_them:
        raise usage("say which segments, or --all", "aof2 segments lists them")
    tiers = tiers_of(log, cold)
    with open_writer(log, tiers=tiers) as writer:
        sealed = {s.segment_id: s for s in writer.segments() if s.is_sealed}
        for segment_id in segment_ids:
            if segment_id not in sealed:
                raise CommandError(
                    ExitCode.NOT_FOUND,
                    "no_such_segment",
                    f"there is no sealed segment {segment_id}",
                    "aof2 segments lists them, aof2 seal closes the active one",
                    segment_id=segment_id,
                )
        wanted = sealed if all_of_them else dict.fromkeys(segment_ids)
        # One that is damaged stays where it is, for repair; if it was named, that is told.
        chosen = [
            sealed[segment_id]
            for segment_id in wanted
            if moves(sealed[segment_id]) and not (all_of_them and sealed[segment_id].damage)
        ]
        moved_bytes = _move_each(out, writer, chosen, what, step)
        ids = {segment.segment_id for segment in chosen}
        return [s for s in writer.segments() if s.segment_id in ids], moved_bytes


def _move_each(
    out: Output,
    writer: "Aof",
    chosen: "list[Segment]",
    what: str,
    step: "Callable[[Aof, int], int]",
) -> int:
    total = sum(segment.used_bytes for segment in chosen)
    moved_bytes = 0
    moved_count = 0
    with out.progress(what) as progress:
        try:
            for segment in chosen:
                progress(moved_bytes, total)
                moved_bytes += step(writer, segment.segment_id)
                moved_count += 1
        except BaseException as error:
            if moved_count:
                error.add_note(f"{plural(moved_count, 'segment')} moved before that")
            raise
    return moved_bytes


def print_moved(
    out: Output, moved: "list[Segment]", moved_bytes: int, *, done: str, nothing: str
) -> None:
    """Print what moved."""
    if out.as_json:
        out.object(
            {
                "segments": [segment_object(segment) for segment in moved],
                "segment_count": len(moved),
                "moved_bytes": moved_bytes,
                "warm_bytes": sum(segment.warm_bytes or 0 for segment in moved),
                "cold_bytes": sum(segment.cold_bytes or 0 for segment in moved),
            }
        )
        return
    if not moved:
        out.line(nothing)
        return
    out.table(TIER_COLUMNS, [tier_row(segment) for segment in moved])
    copies = human_bytes(sum(segment.warm_bytes or 0 for segment in moved))
    out.line(
        f"{plural(len(moved), 'segment')} {done}: {human_bytes(moved_bytes)}, compressed {copies}"
    )
