"""Tables on a terminal, however narrow it is.

Numbers and times are shown whole or not at all: where not all columns fit, the least
important ones are left out, and a column ``…`` says so. Text is broken into lines. Only
where the columns that always stay do not fit either is something cut, and the cut has a
mark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from textwrap import wrap
from typing import Any

from aof2.cli.errors import one_line

MARK = "…"
#: Text is broken into lines that are not shorter than this, and a name is not cut further.
_TEXT_WIDTH_MIN = 8
_NAME_WIDTH_MIN = 12
#: Between two columns, and at both ends of a line.
_GAP = 2


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Numbers are set to the right. Times are shown to the second on a terminal, where
    every character counts, and whole elsewhere. A name is cut with a mark instead of
    broken into lines. `leaves` says which columns are left out of a narrow terminal: the
    largest first; those with 0 always stay.
    """

    name: str
    is_number: bool = False
    is_time: bool = False
    is_name: bool = False
    leaves: int = 0

    def title(self) -> str:
        """Return the name as a terminal shows it."""
        return f"{self.name} (UTC)" if self.is_time else self.name

    def cell(self, text: str) -> str:
        """Return a value as a terminal shows it."""
        if self.is_time and text.endswith("Z"):
            return text[: len("2026-01-31T12:00:00")].replace("T", " ")
        return one_line(text)

    @property
    def is_whole(self) -> bool:
        """Whether its values make no sense in parts."""
        return self.is_number or self.is_time or self.is_name

    def lines(self, cells: Sequence[str], *, is_narrow: bool) -> list[str]:
        """Return the title in one line, or in as many as its cells are narrow."""
        from rich.cells import cell_len

        if not is_narrow:
            return [self.title()]
        width = max(map(cell_len, (*self.title().split(), *cells)))
        return wrap(self.title(), width)

    def width_min(self, width: int) -> int:
        """Return the width that it needs at least, of the one that it would like."""
        if self.is_name:
            return min(width, _NAME_WIDTH_MIN)
        return width if self.is_whole else min(width, _TEXT_WIDTH_MIN)


@dataclass(frozen=True)
class _Layout:
    """Which columns are shown, and how wide each is; no widths if they do not fit."""

    titles: list[list[str]]
    widths: list[int | None]
    shown: list[bool]
    #: Whether a column of its own says that some are left out; otherwise the last title.
    has_mark: bool = False


def _layout(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> _Layout:
    """Make it fit: with titles in one line, in several, and then with fewer columns."""
    from rich.cells import cell_len

    cells = [[row[i] for row in rows] for i in range(len(columns))]
    for is_narrow in (False, True):
        titles = [c.lines(of, is_narrow=is_narrow) for c, of in zip(columns, cells, strict=True)]
        liked = [max(map(cell_len, (*t, *of))) for t, of in zip(titles, cells, strict=True)]
        least = [column.width_min(most) for column, most in zip(columns, liked, strict=True)]
        shown = [True] * len(columns)
        if _needed(least, shown) <= width:
            return _Layout(titles, [*_widths(least, liked, shown, width)], shown)
    while _needed(least, shown) > width:
        leaving = [i for i, column in enumerate(columns) if shown[i] and column.leaves]
        if not leaving:
            last = max(i for i, is_shown in enumerate(shown) if is_shown)
            titles[last] = [*titles[last][:-1], f"{titles[last][-1]} {MARK}"]
            return _Layout(titles, [None] * len(columns), shown)
        shown[max(leaving, key=lambda i: columns[i].leaves)] = False
    return _Layout(titles, [*_widths(least, liked, shown, width)], shown, has_mark=True)


def _needed(widths: Sequence[int], shown: Sequence[bool]) -> int:
    needed = [*compress(widths, shown), *([] if all(shown) else [len(MARK)])]
    return sum(needed) + _GAP * len(needed)


def _widths(
    least: Sequence[int], liked: Sequence[int], shown: Sequence[bool], width: int
) -> list[int]:
    """Share what is left among the columns that would like to be wider."""
    widths = list(least)
    left = width - _needed(least, shown)
    growing = [i for i, is_shown in enumerate(shown) if is_shown]
    while left and (growing := [i for i in growing if widths[i] < liked[i]]):
        for i in growing[:left]:
            widths[i] += 1
        left -= min(left, len(growing))
    return widths


def rich_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int) -> Any:
    """Make the table as a terminal of this width shows it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[c.cell(text) for c, text in zip(columns, row, strict=True)] for row in rows]
    layout = _layout(columns, cells, width)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    places = zip(columns, layout.titles, layout.widths, strict=True)
    for column, title, column_width in compress(places, layout.shown):
        table.add_column(
            Text("\n".join(title)),
            justify="right" if column.is_number else "left",
            no_wrap=column.is_whole,
            overflow="ellipsis" if column.is_whole else "fold",
            width=column_width,
        )
    if layout.has_mark:
        table.add_column(MARK, no_wrap=True)
    for row in cells:
        table.add_row(*(Text(text) for text in compress(row, layout.shown)))
    return table
