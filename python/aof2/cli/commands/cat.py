"""``aof2 cat``: records of a range."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.handles import open_reader
from aof2.cli.options import (
    examples,
    format_options,
    json_option,
    log_argument,
    range_options,
    reading_options,
)
from aof2.cli.output import Output
from aof2.cli.reading import Missing, on_corruption, record_format, visibility, write_records

if TYPE_CHECKING:
    from aof2._types import EndLike, StartLike


@click.command(
    "cat",
    epilog=examples(
        "aof2 cat data/events --from 100 --to 200",
        "aof2 cat data/events --from -15m --output json | jq .payload",
        "aof2 cat data/events --from 2026-01-31 --to 2026-02-01 --meta",
        'aof2 cat data/images -n 1 --output raw --delimiter "" > cat.png',
    ),
)
@log_argument
@range_options
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N", help="Print at most N records."
)
@format_options
@reading_options
@json_option
def command(
    log: str,
    start: "StartLike",
    end: "EndLike",
    limit: int | None,
    skip_damage: bool,
    with_appended: bool,
    as_json: bool,
    **formatting: Any,
) -> None:
    """Print records of a range.

    One record per line. text escapes what is not printable, raw writes the exact bytes
    and a newline behind each record, json one object per record (payload_encoding says
    whether the payload is text or base64), hex a dump. Times without a zone are UTC.
    """
    encoding = record_format(as_json=as_json, **formatting)
    with open_reader(log) as reader:
        scan = reader.scan(
            start,
            end,
            visibility=visibility(with_appended),
            on_corruption=on_corruption(skip_damage),
        )
        # More than there can ever be is all of them.
        count = None if limit is None else min(limit, sys.maxsize)
        out = Output(as_json=as_json)
        write_records(islice(scan, count), encoding, out.bytes)
        Missing().add(scan).tell(out)
