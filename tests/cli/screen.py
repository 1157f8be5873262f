"""As much of a terminal as it takes to see what stands on the screen in the end."""

import re

_PIECES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]")


class Screen:
    """Understands what rich writes: moving, erasing, and characters that wrap around."""

    def __init__(self, columns: int, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self._lines = [""] * rows
        self._row = self._column = 0

    def lines(self) -> list[str]:
        """What stands there, without what is blank."""
        return [line.rstrip() for line in self._lines if line.strip()]

    def resize(self, columns: int) -> None:
        """Lines that are too long now are broken, as terminals do it."""
        self.columns = columns
        broken: list[str] = []
        row = 0
        for number, line in enumerate(self._lines):
            if number == self._row:
                row = len(broken)
            text = line.rstrip()
            broken += [text[i : i + columns] for i in range(0, max(len(text), 1), columns)]
        # What is above the screen then is out of reach.
        above = max(row + 1 - self.rows, 0)
        self._row = row - above
        self._lines = (broken[above:] + [""] * self.rows)[: self.rows]

    def feed(self, text: str) -> None:
        for piece in _PIECES.findall(text):
            self._take(piece)

    def _take(self, piece: str) -> None:
        match piece[-1], piece[2:-1]:
            case "\r", _:
                self._column = 0
            case "\n", _:
                self._column = 0
                self._down()
            case "H", "":
                self._row = self._column = 0
            case "A", count if piece[0] == "\x1b":
                self._row = max(self._row - int(count or 1), 0)
            case "K", "2":
                self._lines[self._row] = ""
            case (("h" | "l"), "?1049"):
                self._lines = [""] * self.rows
            case character, "" if piece[0] != "\x1b":
                self._put(character)

    def _put(self, character: str) -> None:
        if self._column >= self.columns:
            self._column = 0
            self._down()
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
        self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == self.rows:
            self._lines = [*self._lines[1:], ""]
            self._row -= 1
