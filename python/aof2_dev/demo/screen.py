"""How the demo looks, on a terminal and without one."""

from collections.abc import Iterable

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

BAR_CELLS = 32


class ClaimFailed(Exception):
    """Something that the demo says about the log turned out not to be true."""


class Screen:
    """Prints headings, facts, checks and small charts."""

    def __init__(self) -> None:
        console = Console(highlight=False)
        # Output that goes to a file or a pipe has no width of its own.
        self.console = console if console.is_terminal else Console(highlight=False, width=100)
        self._step = 0

    def title(self, text: str, subtitle: str) -> None:
        """Print what this is."""
        body = Text.assemble((text, "bold"), "\n", (subtitle, "dim"))
        self.console.print(Panel(body, border_style="blue", expand=False, padding=(0, 2)))

    def step(self, text: str) -> None:
        """Begin the next step."""
        self._step += 1
        self.console.print()
        self.console.print(
            Text.assemble((f" {self._step} ", "bold white on blue"), f" {text}", style="bold")
        )

    def say(self, text: str) -> None:
        """Print a sentence, with markup."""
        self.console.print(f"    {text}", soft_wrap=True)

    def claim(self, holds: bool, text: str) -> None:
        """Print a claim that was checked; end the demo if it does not hold."""
        if not holds:
            raise ClaimFailed(text)
        self.console.print(f"    [green]✓[/] {text}", soft_wrap=True)

    def marks(self, appended: int, durable: int, out_of: int) -> None:
        """Print one line with both watermarks as a bar."""
        green = BAR_CELLS * durable // max(out_of, 1)
        blue = max(BAR_CELLS * appended // max(out_of, 1) - green, 0)
        rest = BAR_CELLS - green - blue
        self.console.print(
            f"    [green]{'━' * green}[/][blue]{'━' * blue}[/][dim]{'─' * rest}[/]"
            f"  appended [blue]{appended:>9,}[/]  durable [green]{durable:>9,}[/]"
            f"  [dim]between {appended - durable:>5,}[/]",
            soft_wrap=True,
        )

    def bars(self, rows: Iterable[tuple[str, int]]) -> None:
        """Print counts as a bar chart."""
        rows = list(rows)
        most = max((count for _, count in rows), default=1)
        chart = Table.grid(padding=(0, 2))
        chart.add_column(justify="right")
        chart.add_column(justify="right")
        chart.add_column()
        for name, count in rows:
            chart.add_row(
                f"    {name}", f"{count:,}", f"[blue]{'█' * max(BAR_CELLS * count // most, 1)}[/]"
            )
        self.console.print(chart)

    def done(self, text: str) -> None:
        """Print how it ended."""
        self.console.print()
        self.console.print(
            Panel(Text(text, style="bold green"), border_style="green", expand=False)
        )


def megabytes(byte_count: int) -> str:
    """Write a number of bytes for people."""
    return f"{byte_count / 1e6:,.1f} MB"
