"""Arguments and options that several commands have, and the types behind them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aof2._sizes import parse_bytes
from aof2.cli.times import TIME_HELP, parse_position, parse_time, timestamp_ms
from aof2.cli.units import parse_age_ms

if TYPE_CHECKING:
    from aof2._types import EndLike, StartLike

F = TypeVar("F", bound=Callable[..., Any])


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:  # generic for type checkers only, in the older versions of click
    _ParamType = click.ParamType


class _Parsed(_ParamType):
    """A type whose parser says in its ValueError what is wrong."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _start(text: str) -> "StartLike":
    return parse_position(text)


def _name(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is not UTF-8") from None
    return text


def _end(text: str) -> "EndLike":
    """``latest`` is where a scan ends anyway; nothing lies before ``earliest``."""
    end = parse_position(text)
    if end == "latest":
        return None
    if isinstance(end, str):
        raise ValueError("a range cannot end at earliest")
    return end


START = _Parsed("position", _start)
END = _Parsed("position", _end)
TIMESTAMP = _Parsed("time", lambda text: timestamp_ms(parse_time(text)))
BYTES = _Parsed("size", parse_bytes)
AGE = _Parsed("age", parse_age_ms)
NAME = _Parsed("text", _name)


class _LogPath(click.Path):
    """A directory; an unset variable in a script gives an empty one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


LOG_PATH = _LogPath()


def log_argument(function: F) -> F:
    """Add the directory of a log."""
    return click.argument("log", type=LOG_PATH, metavar="LOG")(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, exact values.")(
        function
    )


def range_options(function: F) -> F:
    """Add ``--from`` and ``--to``."""
    function = click.option(
        "--to",
        "end",
        type=END,
        metavar="POSITION",
        help="Stop before this offset, record id or time.",
    )(function)
    return click.option(
        "--from",
        "start",
        type=START,
        default="earliest",
        show_default=True,
        metavar="POSITION",
        help=f"Start at this offset (1200), record id (3:64), earliest, latest, or time: "
        f"{TIME_HELP}.",
    )(function)


def reading_options(function: F) -> F:
    """Add which records are seen, and what to do about damaged ones."""
    function = click.option(
        "--skip-damage",
        is_flag=True,
        help="Go on behind damaged records; the exit code is 5 if there were any.",
    )(function)
    return click.option(
        "--appended",
        "with_appended",
        is_flag=True,
        help="Show records that are not durable yet, too.",
    )(function)


def creating_options(function: F) -> F:
    """Add how a log is made if there is none, and how it is written."""
    for option in (
        click.option(
            "--no-create", is_flag=True, help="Fail if there is no log yet instead of creating it."
        ),
        click.option(
            "--segment-bytes",
            type=BYTES,
            metavar="SIZE",
            help="Size of new segments, a power of two from 64k to 2G. [default: 1 to 256 MiB, "
            "by write rate]",
        ),
        click.option(
            "--layout",
            type=click.Choice(["full", "compact"]),
            help="Record layout of a new log. [default: full]",
        ),
        click.option(
            "--name",
            type=NAME,
            help="Name of a new log. [default: the last part of its directory]",
        ),
    ):
        function = option(function)
    return function


def format_options(function: F) -> F:
    """Add how records are printed."""
    for option in (
        click.option(
            "--delimiter",
            metavar="TEXT",
            help=r"With raw: what follows each record; \n, \t and \0 are known. [default: \n]",
        ),
        click.option("-m", "--meta", "with_meta", is_flag=True, help="With text: offset and time."),
        click.option(
            "-o",
            "--output",
            type=click.Choice(["text", "raw", "json", "hex"]),
            help="How records are printed. [default: text]",
        ),
    ):
        function = option(function)
    return function


def examples(*lines: str) -> str:
    r"""Return the end of a command's help: examples, each on a line of its own.

    ``\b`` tells click to leave the lines as they are.
    """
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)
