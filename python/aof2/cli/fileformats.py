"""Files that records come from and go to.

Which format a file has, and writing one so that it is there whole or not at all.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import click

from aof2.cli.errors import CommandError, ExitCode, usage

F = TypeVar("F", bound=Callable[..., Any])

_BY_SUFFIX = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def file_format_option(function: F) -> F:
    """``--format``."""
    return click.option(
        "--format",
        "file_format",
        type=click.Choice(["jsonl", "parquet"]),
        help="Format of FILE. [default: by its ending; jsonl for -]",
    )(function)


def format_of(name: str, file_format: str | None) -> str:
    """Return the format asked for, or the one that the name tells."""
    if file_format is None:
        file_format = "jsonl" if name == "-" else _BY_SUFFIX.get(Path(name).suffix.lower())
    if file_format is None:
        raise usage(
            f"the ending of {name} does not tell its format", "say --format jsonl or parquet"
        )
    if name == "-" and file_format == "parquet":
        raise usage("Parquet needs a file, not -", "give it a name")
    return file_format


@contextmanager
def whole_file(name: str, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file to write that gets its name when it is complete and synced.

    A failure or an interrupt leaves nothing, and a file that was there stays as it was.
    """
    if name == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    target = Path(name)
    if not force and target.exists():
        raise CommandError(
            ExitCode.USAGE, "exists", f"{name} exists already", "--force replaces it", path=name
        )
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
