"""``aof2 export``: records to a file that other tools read."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from aof2.cli.fileformats import file_format_option, format_of, whole_file
from aof2.cli.handles import open_reader
from aof2.cli.options import examples, json_option, log_argument, range_options, reading_options
from aof2.cli.output import Output
from aof2.cli.payloads import RecordFormat
from aof2.cli.reading import Missing, on_corruption, visibility, write_records
from aof2.cli.units import human_bytes, plural

if TYPE_CHECKING:
    from aof2 import Reader
    from aof2._types import EndLike, StartLike


@click.command(
    "export",
    epilog=examples(
        "aof2 export data/events events.parquet",
        "aof2 export data/events - --from -1d | gzip > day.jsonl.gz",
        "aof2 export data/events part.jsonl --from 1000 --to 2000",
    ),
)
@log_argument
@click.argument("file", type=click.Path(), metavar="FILE")
@range_options
@file_format_option
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@reading_options
@json_option
def command(
    log: str,
    file: str,
    start: "StartLike",
    end: "EndLike",
    file_format: str | None,
    force: bool,
    skip_damage: bool,
    with_appended: bool,
    as_json: bool,
) -> None:
    """Write records to JSON lines or Parquet.

    FILE is there when it is complete, or not at all; - is stdout, for JSON lines.
    aof2 import makes the same records of it again: payload, timestamp and flags are
    exact. Parquet needs pyarrow: pip install "aof2[arrow]".
    """
    out = Output(as_json=as_json)
    chosen = format_of(file, file_format)
    if chosen == "parquet":
        from aof2.cli.parquet import require_pyarrow

        require_pyarrow()
    options: dict[str, Any] = {
        "visibility": visibility(with_appended),
        "on_corruption": on_corruption(skip_damage),
    }
    with open_reader(log) as reader, whole_file(file, force=force) as stream:
        write = _write_parquet if chosen == "parquet" else _write_json_lines
        count, missing = write(reader, start, end, options, stream)
    if file != "-":
        _report(out, file, chosen, count, missing)
    missing.tell(out)


def _write_json_lines(
    reader: "Reader", start: Any, end: Any, options: dict[str, Any], stream: BinaryIO
) -> tuple[int, Missing]:
    scan = reader.scan(start, end, **options)
    count = write_records(scan, RecordFormat("json"), stream)
    return count, Missing().add(scan)


def _write_parquet(
    reader: "Reader", start: Any, end: Any, options: dict[str, Any], stream: BinaryIO
) -> tuple[int, Missing]:
    from aof2.cli import parquet

    scan = reader.scan_arrow(start, end, columns=parquet.COLUMNS, **options)
    count = parquet.write(scan, stream)
    return count, Missing().add(scan)


def _report(out: Output, file: str, file_format: str, count: int, missing: Missing) -> None:
    size = Path(file).stat().st_size
    if out.as_json:
        out.object(
            {
                "path": file,
                "format": file_format,
                "record_count": count,
                "file_bytes": size,
                "skipped": missing.skipped,
                "lost": missing.lost,
            }
        )
    else:
        out.line(f"exported {plural(count, 'record')} to {file} ({human_bytes(size)})")
