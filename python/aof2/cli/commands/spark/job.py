"""Running a job: where, on which session, and how far it is."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aof2.cli.commands.spark.failures import explained
from aof2.cli.errors import usage
from aof2.cli.output import Output, console

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aof2.spark.pipelines import Progress

F = TypeVar("F", bound=Callable[..., Any])


def session_options(function: F) -> F:
    """Add where the job runs."""
    function = click.option(
        "--conf",
        "conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of Spark; may be repeated.",
    )(function)
    return click.option(
        "--master",
        default="local[*]",
        show_default=True,
        metavar="URL",
        help="Where to run: local[4], spark://host:7077, sc://host for Spark Connect.",
    )(function)


@contextmanager
def running_job(
    out: Output, log: str, master: str, conf: tuple[str, ...], **wanted: Any
) -> "Iterator[tuple[SparkSession, Callable[[Progress], None]]]":
    """Give a session and what shows progress; explain what fails inside."""
    settings = dict(_setting(text) for text in conf)
    with explained():
        from aof2.spark.requirements import require_spark

        require_spark()
        if not master.startswith("sc://"):
            from aof2.spark.pipelines.planning import find_wanted

            # What cannot be read is found out before a JVM is started.
            find_wanted(None, log, **wanted)
        from aof2.spark.pipelines.sessions import running

        with running(None, master=master, conf=settings) as spark, _progress(out) as progress:
            yield spark, progress


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise usage(f"--conf {text!r} is not NAME=VALUE", "write it like spark.driver.memory=4g")
    return name, value


def print_report(out: Output, report: Any, print_text: Callable[[Output, Any], None]) -> None:
    """Print a report, as JSON or as text."""
    if out.as_json:
        out.object(report.to_dict())
    else:
        print_text(out, report)


@contextmanager
def _progress(out: Output) -> "Iterator[Callable[[Progress], None]]":
    """Show a bar on stderr for each step, if that is a terminal."""
    if out.as_json or not sys.stderr.isatty():
        yield lambda _state: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeRemainingColumn(),
        console=console(sys.stderr),
        transient=True,
    )
    shown: dict[str, Any] = {}
    with bars:

        def show(state: "Progress") -> None:
            if state.step not in shown:
                shown[state.step] = bars.add_task(state.step, total=None, unit=state.unit)
            bars.update(shown[state.step], completed=state.done, total=state.total)

        yield show
