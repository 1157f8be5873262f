"""``aof2 import``: records from a file, as ``aof2 export`` writes it or as others do."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aof2.cli.errors import CommandError, ExitCode
from aof2.cli.fileformats import file_format_option, format_of
from aof2.cli.handles import open_writer
from aof2.cli.options import creating_options, examples, json_option, log_argument
from aof2.cli.output import Output
from aof2.cli.payloads import parse_record_object
from aof2.cli.units import plural

if TYPE_CHECKING:
    from aof2 import Aof

#: Payload, timestamp and flags of a row, and the number of its line.
_Row = tuple[int, bytes, int | None, int]


_FIELDS = """\b
Fields and columns:
  payload           required; in JSON a string
  payload_encoding  JSON only: text (the default) or base64
  timestamp_ms      JSON only: milliseconds since 1970
  timestamp         ISO 8601 in JSON, a timestamp in Parquet; now if missing
  flags             a number; 0 if missing
Others are passed over: offsets and ids are those of this log.

"""


@click.command(
    "import",
    epilog=_FIELDS
    + examples(
        "aof2 import data/copy events.parquet",
        "zcat day.jsonl.gz | aof2 import data/events -",
        "aof2 import data/events rows.jsonl --dry-run",
    ),
)
@log_argument
@click.argument("file", type=click.Path(), metavar="FILE")
@file_format_option
@click.option("--dry-run", is_flag=True, help="Check every row of FILE and append nothing.")
@creating_options
@json_option
def command(
    log: str,
    file: str,
    file_format: str | None,
    dry_run: bool,
    as_json: bool,
    **creating: Any,
) -> None:
    """Append records from JSON lines or Parquet.

    Each line is an object, each row of Parquet a record, as aof2 export writes them.
    The log is created if there is none. Rows before a wrong one stay appended, and the
    message says how many. FILE may be - for stdin, as JSON lines. Parquet needs
    pyarrow: pip install "aof2[arrow]".
    """
    out = Output(as_json=as_json)
    is_parquet = format_of(file, file_format) == "parquet"
    if dry_run:
        count = sum(_parquet_counts(file)) if is_parquet else sum(1 for _ in _rows(file))
        _report(out, file, count, None, dry_run=True)
        return
    _check_readable(file, is_parquet)
    with open_writer(log, **creating) as writer:
        first = writer.watermarks().appended
        try:
            if is_parquet:
                _append_batches(writer, file)
            else:
                _append_rows(writer, file)
        except (Exception, KeyboardInterrupt) as error:
            count = writer.watermarks().appended - first
            error.add_note(f"{plural(count, 'record')} appended before that")
            raise
        count = writer.watermarks().appended - first
    _report(out, file, count, first, dry_run=False)


def _check_readable(file: str, is_parquet: bool) -> None:
    """Fail early: a file that cannot be read must not leave a new log behind."""
    if is_parquet:
        next(_parquet_counts(file), None)
    elif file != "-":
        with Path(file).open("rb"):
            pass


def _append_rows(writer: "Aof", file: str) -> None:
    for number, payload, timestamp_ms, flags in _rows(file):
        try:
            writer.append(payload, timestamp_ms=timestamp_ms, flags=flags)
        except ValueError as error:
            error.add_note(f"{_shown(file)}, line {number}")
            raise


def _rows(file: str) -> Iterator[_Row]:
    with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                yield (number, *parse_record_object(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise CommandError(
                    ExitCode.USAGE,
                    "invalid_row",
                    f"{_shown(file)}, line {number}: {error}",
                    line=number,
                ) from None


def _shown(file: str) -> str:
    return "stdin" if file == "-" else file


def _append_batches(writer: "Aof", file: str) -> None:
    from aof2.cli import parquet

    for batch in parquet.read(file):
        names = batch.schema.names
        writer.append_arrow(
            batch,
            column="payload",
            timestamp_column="timestamp" if "timestamp" in names else None,
            flags_column="flags" if "flags" in names else None,
        )


def _parquet_counts(file: str) -> Iterator[int]:
    from aof2.cli import parquet

    for batch in parquet.read(file):
        yield batch.num_rows


def _report(out: Output, file: str, count: int, first: int | None, *, dry_run: bool) -> None:
    if out.as_json:
        out.object(
            {
                "path": file,
                "record_count": count,
                "first_offset": first,
                "next_offset": None if first is None else first + count,
                "dry_run": dry_run,
            }
        )
    elif dry_run:
        out.line(f"{plural(count, 'record')} in {file}, all well-formed")
    else:
        out.line(f"imported {plural(count, 'record')} at offset {first} and on, durable")
