"""``aof2 cat``: records of a range."""

import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import usage
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
from aof2.cli.payloads import RecordFormat
from aof2.cli.reading import Missing, on_corruption, visibility, write_records

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


def record_format(
    *, as_json: bool, output: str | None, with_meta: bool, delimiter: str | None
) -> RecordFormat:
    """Return the output format that the options ask for."""
    if as_json and output not in (None, "json"):
        raise usage(f"--json and --output {output} were both given", "use one of them")
    name = "json" if as_json else output or "text"
    if delimiter is not None and name != "raw":
        raise usage("--delimiter is for --output raw")
    if with_meta and name != "text":
        raise usage("--meta is for --output text; json and hex show it anyway")
    end = b"\n" if delimiter is None else _unescaped(delimiter)
    return RecordFormat(name, with_meta=with_meta, delimiter=end)


def _unescaped(text: str) -> bytes:
    """Read the delimiter; shells make newlines, tabs and NULs hard to type."""
    for escape, char in (("\\n", "\n"), ("\\t", "\t"), ("\\0", "\0")):
        text = text.replace(escape, char)
    return text.encode("utf-8", "surrogateescape")
