"""Where output goes and what it looks like.

On a terminal: tables, colour and progress bars. Into a pipe or a file: one line per
row, cells separated by tabs, nothing wrapped, nothing coloured. With ``--json``: JSON,
one object per line. ``NO_COLOR`` and ``TERM=dumb`` switch colour off.

Records and JSON go out as bytes, so that no locale can change them.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from aof2.cli.errors import one_line
from aof2.cli.tables import Column, rich_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console


__all__ = ["Column", "Output", "console", "json_line", "rich_table", "wants_colour"]


def wants_colour() -> bool:
    """Whether the person behind the terminal wants colour."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(stream: TextIO) -> "Console":
    """Make a rich console for a terminal."""
    from rich.console import Console

    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        color_system="auto" if wants_colour() else None,
    )


class Output:
    """The output of one command."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.is_terminal = sys.stdout.isatty() and not as_json

    @property
    def bytes(self) -> BinaryIO:
        """Standard output as bytes."""
        # What was written as text comes first.
        sys.stdout.flush()
        return sys.stdout.buffer

    def line(self, text: str) -> None:
        """Print a line of text."""
        print(one_line(text))

    def object(self, value: dict[str, Any]) -> None:
        """Print a line of JSON."""
        self.bytes.write(json_line(value))

    def note(self, text: str) -> None:
        """Print something beside the result, on stderr; not with ``--json``."""
        if not self.as_json:
            sys.stdout.flush()
            print(one_line(text), file=sys.stderr)

    def warn(self, kind: str, message: str, details: dict[str, Any]) -> None:
        """Tell on stderr what the result alone would hide; with ``--json`` as JSON."""
        sys.stdout.flush()
        if self.as_json:
            warning = {"kind": kind, "message": message, **details}
            print(json_line({"warning": warning}).decode(), end="", file=sys.stderr)
        else:
            print(f"warning: {one_line(message)}", file=sys.stderr)

    def flush(self) -> None:
        """Show what was written."""
        sys.stdout.flush()

    def fields(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print names and values."""
        rows = [(name, one_line(value)) for name, value in rows]
        if not self.is_terminal:
            for name, value in rows:
                print(f"{name}\t{value}")
            return
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for name, value in rows:
            grid.add_row(Text(name, style="bold"), Text(value))
        console(sys.stdout).print(grid)

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
        """Print a table with a line for each row."""
        if self.is_terminal:
            stdout = console(sys.stdout)
            stdout.print(rich_table(columns, rows, stdout.width))
            return
        self.line_of_cells(column.name for column in columns)
        for row in rows:
            self.line_of_cells(row)

    def line_of_cells(self, cells: Iterable[str]) -> None:
        """Print one row of a table, as pipes get it."""
        print("\t".join(one_line(cell) for cell in cells))

    @contextmanager
    def progress(self, what: str, unit: str = "bytes") -> "Iterator[Callable[[int, int], None]]":
        """Show a progress bar on stderr, if that is a terminal.

        Gives a function to call with what is done and all there is, in bytes or another
        unit.
        """
        if self.as_json or not sys.stderr.isatty():
            yield lambda _done, _total: None
            return
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        amounts: tuple[ProgressColumn, ...]
        if unit == "bytes":
            amounts = (DownloadColumn(binary_units=True), TransferSpeedColumn())
        else:
            amounts = (MofNCompleteColumn(), TextColumn(unit))
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *amounts,
            TimeRemainingColumn(),
            console=console(sys.stderr),
            transient=True,
        )
        with bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def json_line(value: dict[str, Any]) -> bytes:
    """Encode one JSON object and a newline, in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return _encoded_by_locale(text) + b"\n"


def _encoded_by_locale(text: str) -> bytes:
    """Encode text with lone surrogates: bytes of paths that the locale does not know.

    They are what they are in a locale that knows them, or else escapes.
    """
    with suppress(UnicodeError):
        original = text.encode("utf-8", "surrogateescape")
        original.decode("utf-8")
        return original
    return text.encode("utf-8", "backslashreplace")
