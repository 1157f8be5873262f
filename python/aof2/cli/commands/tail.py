"""``aof2 tail``: the last records, and those that come."""

from typing import TYPE_CHECKING, Any, BinaryIO, TypedDict

import click

from aof2.cli.handles import open_reader
from aof2.cli.options import examples, format_options, json_option, log_argument, reading_options
from aof2.cli.output import Output
from aof2.cli.reading import Missing, on_corruption, record_format, visibility, write_records
from aof2.cli.streams import ending_with_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aof2 import Record
    from aof2._types import OnCorruption, Visibility
    from aof2.cli.payloads import RecordFormat


class _How(TypedDict):
    """Options of a scan and of a follower."""

    visibility: "Visibility"
    on_corruption: "OnCorruption"


@click.command(
    "tail",
    epilog=examples(
        "aof2 tail data/events",
        "aof2 tail -f -n 0 data/events --output json",
        "aof2 tail -f data/events --until-closed | wc -l",
    ),
)
@log_argument
@click.option(
    "-n",
    "--lines",
    "count",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Start with the last N records.",
)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until interrupted.")
@click.option("--until-closed", is_flag=True, help="With -f: end when the writer closes the log.")
@format_options
@reading_options
@json_option
def command(
    log: str,
    count: int,
    follow: bool,
    until_closed: bool,
    skip_damage: bool,
    with_appended: bool,
    as_json: bool,
    **formatting: Any,
) -> None:
    """Print the last records, and follow with -f.

    Follows a writer in any process, record by record, across its restarts. Ctrl-C ends
    it with exit code 130. Only durable records are shown, unless --appended is given.
    """
    encoding = record_format(as_json=as_json, **formatting)
    output = Output(as_json=as_json)
    out = output.bytes
    how: _How = {
        "visibility": visibility(with_appended),
        "on_corruption": on_corruption(skip_damage),
    }
    with open_reader(log) as reader:
        marks = reader.watermarks()
        end = marks.appended if with_appended else marks.durable
        scan = reader.scan(max(reader.earliest_offset(), end - count), end, **how)
        write_records(scan, encoding, out)
        out.flush()
        missing = Missing().add(scan)
        if follow:
            # Those that were written meanwhile come first. Damage may have led behind the end.
            start = max(end, scan.next_offset)
            following = reader.follow(start, until_closed=until_closed, **how)
            try:
                with ending_with_reader():
                    _print_each(following, encoding, out)
            except KeyboardInterrupt:
                missing.add(following).warn(output)
                raise
            missing.add(following)
        missing.tell(output)


def _print_each(records: "Iterator[Record]", encoding: "RecordFormat", out: BinaryIO) -> None:
    for record in records:
        out.write(encoding.encode(record))
        out.flush()
