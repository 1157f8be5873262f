"""``aof2 tail``: the last records, and those that come."""

import time
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from aof2.cli.cat import record_format
from aof2.cli.handles import open_reader
from aof2.cli.options import examples, format_options, json_option, log_argument, reading_options
from aof2.cli.output import Output
from aof2.cli.reading import fail_if_skipped, on_corruption, visibility, write_records
from aof2.cli.streams import ending_with_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aof2 import Reader, Record
    from aof2._types import OnCorruption, Visibility
    from aof2.cli.payloads import RecordFormat

#: How often a log without a writer is looked at for a new one.
_REOPEN_SECONDS = 0.2


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
    out = Output(as_json=as_json).bytes
    seen = visibility(with_appended)
    with open_reader(log) as reader:
        marks = reader.watermarks()
        end = marks.appended if seen == "appended" else marks.durable
        start = max(reader.earliest_offset(), end - count)
        follower = _Follower(reader, start, seen, on_corruption(skip_damage))
        write_records(follower.until(end), encoding, out)
        out.flush()
        if follow:
            with ending_with_reader():
                _print_each(follower.follow(until_closed), encoding, out)
        fail_if_skipped(follower.skipped)


def _print_each(records: "Iterator[Record]", encoding: "RecordFormat", out: BinaryIO) -> None:
    for record in records:
        out.write(encoding.encode(record))
        out.flush()


class _Follower:
    """Reads on where it stopped, however often the writer comes and goes."""

    def __init__(
        self,
        reader: "Reader",
        start: int,
        visibility: "Visibility",
        on_corruption: "OnCorruption",
    ) -> None:
        self._reader = reader
        self._next = start
        self._visibility = visibility
        self._on_corruption = on_corruption
        self.skipped = 0

    def until(self, end: int) -> "Iterator[Record]":
        """Read what there is before this offset."""
        scan = self._reader.scan(
            self._next, end, visibility=self._visibility, on_corruption=self._on_corruption
        )
        yield from scan
        self._next = max(end, scan.next_offset)
        self.skipped += scan.skipped

    def follow(self, until_closed: bool) -> "Iterator[Record]":
        """Read what comes."""
        while True:
            follow = self._reader.follow(
                self._next, visibility=self._visibility, on_corruption=self._on_corruption
            )
            yield from follow
            # Without a timeout it ends only when the writer has closed the log.
            self._next = follow.next_offset
            self.skipped += follow.skipped
            if until_closed:
                return
            # The next writer may have come and gone between two looks.
            while self._reader.closed_cleanly and self._end() <= self._next:
                time.sleep(_REOPEN_SECONDS)

    def _end(self) -> int:
        marks = self._reader.watermarks()
        return marks.appended if self._visibility == "appended" else marks.durable
