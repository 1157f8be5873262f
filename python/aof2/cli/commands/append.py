"""``aof2 append``: records from arguments, lines of stdin, or files."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import usage
from aof2.cli.handles import open_writer
from aof2.cli.inputs import check_readable, of_arguments, of_files
from aof2.cli.options import TIMESTAMP, creating_options, examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.times import TIME_HELP
from aof2.cli.units import plural

if TYPE_CHECKING:
    from aof2 import Aof


@click.command(
    "append",
    epilog=examples(
        "aof2 append data/events hello world",
        "my-service | aof2 append data/events --durable --ids",
        "aof2 append data/images --whole -f cat.png -f dog.png",
        'aof2 append data/events --timestamp 2026-01-31T12:00Z "late news"',
    ),
)
@log_argument
@click.argument("texts", nargs=-1, metavar="[TEXT]...")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="Take lines from this file; - is stdin. May be given several times.",
)
@click.option("--whole", is_flag=True, help="Make one record of each file or of stdin.")
@click.option("-0", "--null", "is_null", is_flag=True, help="Lines end with NUL, not newline.")
@click.option("--skip-empty", is_flag=True, help="Pass over empty lines instead of failing.")
@click.option("--durable", is_flag=True, help="Make records durable before they are reported.")
@click.option("--ids", is_flag=True, help="Print offset and id of each record.")
@click.option("--timestamp", type=TIMESTAMP, metavar="TIME", help=f"Their time: {TIME_HELP}.")
@click.option(
    "--flags", type=click.IntRange(0, 2**32 - 1), default=0, metavar="N", help="Their flags."
)
@creating_options
@json_option
def command(
    log: str,
    texts: tuple[str, ...],
    files: tuple[str, ...],
    whole: bool,
    is_null: bool,
    skip_empty: bool,
    durable: bool,
    ids: bool,
    timestamp: int | None,
    flags: int,
    as_json: bool,
    **creating: Any,
) -> None:
    """Append records from arguments, lines or files.

    Each TEXT, or each line of stdin or of the files, is one record; the log is created
    if there is none. When the command succeeds, everything it appended is durable.
    --durable matters while it runs: then what --ids prints is durable already.
    """
    if texts and files:
        raise usage("TEXT and --file were both given", "use one of them")
    if texts and (whole or is_null):
        raise usage("--whole and --null are for files and stdin, TEXT was given")
    out = Output(as_json=as_json)
    # What can be known to be wrong is found here: it must leave no new log behind.
    if texts:
        batches = _begun(of_arguments(texts, skip_empty))
    else:
        check_readable(files)
        batches = of_files(files or ("-",), whole, b"\0" if is_null else b"\n", skip_empty)
    with open_writer(log, **creating) as writer:
        appender = _Appender(writer, out, durable=durable, ids=ids)
        appender.timestamp_ms = timestamp
        appender.flags = flags
        appender.append_all(batches)
    appender.report()


def _begun(batches: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """Take the first batch already."""
    return chain([next(batches)], batches)


class _Appender:
    """Appends batches and tells about them."""

    def __init__(self, log: "Aof", out: Output, *, durable: bool, ids: bool) -> None:
        self._log = log
        self._out = out
        self._durable = durable
        self._ids = ids
        self.timestamp_ms: int | None = None
        self.flags = 0
        self.count = 0
        self.first_offset = log.watermarks().appended

    def append_all(self, batches: Iterable[Sequence[bytes]]) -> None:
        try:
            for batch in batches:
                self._append(batch)
        except (Exception, KeyboardInterrupt) as error:
            # A batch may be in the log in part; what counts is the watermark.
            self.count = self._log.watermarks().appended - self.first_offset
            error.add_note(f"{plural(self.count, 'record')} appended before that")
            raise

    def _append(self, payloads: Sequence[bytes]) -> None:
        if not payloads:
            return
        offset = self.first_offset + self.count
        ids = self._append_batch(payloads)
        self.count += len(payloads)
        if self._durable:
            self._log.flush()
        if self._ids:
            for number, record_id in enumerate(ids, offset):
                self._tell(number, str(record_id))
            self._out.flush()

    def _append_batch(self, payloads: Sequence[bytes]) -> Iterable[object]:
        if self.timestamp_ms is None and not self.flags:
            return self._log.append_many(payloads)
        return [
            self._log.append(payload, timestamp_ms=self.timestamp_ms, flags=self.flags)
            for payload in payloads
        ]

    def _tell(self, offset: int, record_id: str) -> None:
        if self._out.as_json:
            self._out.object({"offset": offset, "id": record_id})
        else:
            self._out.line_of_cells([str(offset), record_id])

    def report(self) -> None:
        end = self.first_offset + self.count
        if self._out.as_json:
            if not self._ids:
                self._out.object(
                    {
                        "record_count": self.count,
                        "first_offset": self.first_offset,
                        "next_offset": end,
                    }
                )
        elif self.count == 0:
            self._out.note("nothing to append")
        elif not self._ids:
            where = f"offset {self.first_offset}"
            where += f" to {end - 1}" if self.count > 1 else ""
            self._out.line(f"appended {plural(self.count, 'record')} at {where}, durable")
