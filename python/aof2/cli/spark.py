"""``aof2 spark``: jobs over whole logs, in parallel.

What they do is in `aof2.spark.pipelines`; here are their options, what they print, and
which exit code a failure of Spark has. Neither PySpark nor Java is started before the
options are right and the log was found.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aof2.cli.errors import CommandError, ExitCode, usage
from aof2.cli.options import BYTES, examples, json_option, log_argument, range_options
from aof2.cli.output import Column, Output, console
from aof2.cli.times import time_text
from aof2.cli.units import human_bytes, human_count, plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aof2._types import EndLike, StartLike
    from aof2.spark.pipelines import (
        CopyReport,
        ExportReport,
        ProfileReport,
        Progress,
        VerifyReport,
    )
    from aof2.spark.pipelines.profile import Figures

F = TypeVar("F", bound=Callable[..., Any])

_DAMAGE_COLUMNS = (
    Column("stream"),
    Column("records"),
    Column("file"),
    Column("byte", is_number=True, leaves=1),
    Column("what"),
)
_FIGURES = (
    Column("records", is_number=True),
    Column("payload", is_number=True),
    Column("min", is_number=True, leaves=4),
    Column("mean", is_number=True, leaves=3),
    Column("max", is_number=True, leaves=5),
    Column("rec/s", is_number=True, leaves=1),
    Column("bytes/s", is_number=True, leaves=2),
)
_SEGMENT_COLUMNS = (Column("stream"), Column("segment", is_number=True), *_FIGURES)
_HOUR_COLUMNS = (Column("hour", is_time=True), *_FIGURES)


@click.group(
    "spark",
    epilog=examples(
        "aof2 spark verify data/events",
        "aof2 spark export data/events events.parquet --from -1d",
        "aof2 spark profile data/events --plot events.png",
    ),
)
def command() -> None:
    """Run jobs over a log on Spark.

    On a local session, or with --master on a cluster whose machines see the same
    directory. Needs Java 17 or newer, and pip install "aof2[spark]".
    """


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


@command.command(
    "export",
    epilog=examples(
        "aof2 spark export data/events events.parquet",
        "aof2 spark export data/events day.parquet --from 2026-01-31 --to 2026-02-01",
        "aof2 spark export data/events ids.parquet --columns offset,timestamp --mode overwrite",
    ),
)
@log_argument
@click.argument("target", type=click.Path(), metavar="TARGET")
@range_options
@click.option(
    "--columns",
    metavar="NAMES",
    help="Columns, separated by commas: stream, segment_id, offset, record_id, timestamp, "
    "flags, payload. [default: all]",
)
@click.option(
    "--mode",
    type=click.Choice(["error", "overwrite", "append"]),
    default="error",
    show_default=True,
    help="What to do if TARGET exists.",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    default="zstd",
    show_default=True,
    help="Compression of the files.",
)
@session_options
@json_option
def export(
    log: str,
    target: str,
    start: "StartLike",
    end: "EndLike",
    columns: str | None,
    mode: Any,
    compression: Any,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a range of a log to Parquet files below TARGET.

    LOG may be a directory of logs, or a glob. Files in the order of their names hold the
    records in order. TARGET is complete, or nothing of this export is in it.
    """
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    out = Output(as_json=as_json)
    wanted = {"start": start, "end": end, "columns": names}
    with _job(out, log, master, conf, **wanted) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.export(
            log,
            target,
            spark=spark,
            start=start,
            end=end,
            mode=mode,
            columns=names,
            compression=compression,
            progress=progress,
        )
    _print(out, report, _print_export)


def _print_export(out: Output, report: "ExportReport") -> None:
    out.line(
        f"exported {plural(report.record_count, 'record')} to {report.target} "
        f"({plural(report.file_count, 'file')})"
    )
    if report.missing:
        out.note(f"{plural(report.missing, 'offset')} of the range had no record to export")


@command.command(
    "verify",
    epilog=examples(
        "aof2 spark verify data/events",
        'aof2 spark verify "data/*" --json | jq ".damages[] | .path, .byte"',
    ),
)
@log_argument
@click.option(
    "--split-bytes",
    type=BYTES,
    metavar="SIZE",
    help="How much one task reads. [default: 128 MiB, less if processors would idle]",
)
@session_options
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    log: str,
    split_bytes: int | None,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Read every record of a log and check it, in parallel.

    LOG may be a directory of logs, or a glob. Says which records cannot be read, and in
    which file and byte the damage starts: exit code 5. aof2 verify checks more than the
    records, on one machine.
    """
    out = Output(as_json=as_json)
    options = {} if split_bytes is None else {"maxBytesPerPartition": split_bytes}
    with _job(out, log, master, conf) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.verify(log, spark=spark, progress=progress, **options)
    _print(out, report, _print_verify)
    if not report.is_healthy:
        ctx.exit(ExitCode.CORRUPT)


def _print_verify(out: Output, report: "VerifyReport") -> None:
    from aof2.cli.verify import records_text

    if report.damages:
        rows = [
            (
                damage.stream,
                records_text(damage.start, damage.end),
                damage.path.rsplit("/", 1)[-1],
                str(damage.byte),
                damage.detail,
            )
            for damage in report.damages
        ]
        out.table(_DAMAGE_COLUMNS, rows)
    for stream in report.streams:
        for start, end in stream.gaps:
            out.line(
                f"given up by an earlier repair: {records_text(start, end)} of {stream.stream}"
            )
    where = (
        f"{plural(report.record_count, 'record')} of {plural(len(report.streams), 'log')} "
        f"in {plural(report.split_count, 'split')}"
    )
    if report.is_healthy:
        out.line(f"healthy: {where}")
        return
    lost = sum(damage.end - damage.start for damage in report.damages)
    out.line(
        f"damaged: {plural(lost, 'record')} unreadable, in "
        f"{plural(report.damaged_split_count, 'split')}; {where} intact"
    )


@command.command(
    "copy",
    epilog=examples(
        "aof2 spark copy data/events data/events-64m --segment-bytes 64M",
        "aof2 spark copy data/events data/january --from 2026-01-01 --to 2026-02-01",
    ),
)
@log_argument
@click.argument("target", type=click.Path(), metavar="TARGET")
@range_options
@click.option(
    "--segment-bytes",
    type=BYTES,
    metavar="SIZE",
    help="Size of the copy's segments, a power of two from 64k to 2G. [default: 1 to 256 MiB, "
    "by write rate]",
)
@click.option(
    "--layout",
    type=click.Choice(["full", "compact"]),
    help="Record layout of the copy. [default: that of LOG]",
)
@session_options
@json_option
def copy(
    log: str,
    target: str,
    start: "StartLike",
    end: "EndLike",
    segment_bytes: int | None,
    layout: Any,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Copy a log into new segments, and compare every record.

    Order, timestamps, flags and payloads stay; offsets count from 0. A directory of logs
    becomes a directory of copies. TARGET must not exist; it appears when everything was
    compared, or not at all.
    """
    out = Output(as_json=as_json)
    _refuse_existing(target, master)
    with _job(out, log, master, conf, start=start, end=end) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.copy(
            log,
            target,
            spark=spark,
            segment_bytes=segment_bytes,
            format=layout,
            start=start,
            end=end,
            progress=progress,
        )
    _print(out, report, _print_copy)


def _refuse_existing(target: str, master: str) -> None:
    if not master.startswith("sc://"):
        with _explained():
            from aof2.spark.pipelines.copy import refuse_existing
            from aof2.spark.streams import local_path

            refuse_existing(Path(local_path(target)))


def _print_copy(out: Output, report: "CopyReport") -> None:
    segments = sum(stream.segment_count for stream in report.streams)
    out.line(
        f"copied {plural(report.record_count, 'record')} "
        f"({human_bytes(report.payload_bytes)}) to {report.target} "
        f"({plural(segments, 'segment')}), every record compared"
    )
    missing = sum(stream.missing for stream in report.streams)
    if missing:
        out.note(f"{plural(missing, 'offset')} of the range had no record to copy")


@command.command(
    "profile",
    epilog=examples(
        "aof2 spark profile data/events",
        "aof2 spark profile data/events --from -7d --plot week.png",
        'aof2 spark profile data/events --json | jq ".hours[] | .records_per_s"',
    ),
)
@log_argument
@range_options
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help='Draw it to a PNG file; needs pip install "aof2[plot]".',
)
@session_options
@json_option
def profile(
    log: str,
    start: "StartLike",
    end: "EndLike",
    plot: str | None,
    master: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Count records, bytes and rates per segment and per hour.

    LOG may be a directory of logs, or a glob. Rates of a segment are over the time
    between its first and last timestamp, those of an hour over the whole hour.
    """
    out = Output(as_json=as_json)
    if plot is not None:
        _require_matplotlib()
    with _job(out, log, master, conf, start=start, end=end) as (spark, progress):
        from aof2.spark import pipelines

        report = pipelines.profile(
            log, spark=spark, start=start, end=end, plot=plot, progress=progress
        )
    _print(out, report, _print_profile)


def _require_matplotlib() -> None:
    with _explained():
        from aof2.spark.pipelines.plot import require_matplotlib

        require_matplotlib()


def _print_profile(out: Output, report: "ProfileReport") -> None:
    if report.total is None:
        out.line("no records")
        return
    rows = [(each.stream, str(each.segment_id), *_cells(each)) for each in report.segments]
    out.table(_SEGMENT_COLUMNS, rows)
    out.table(_HOUR_COLUMNS, [(time_text(each.hour_ms), *_cells(each)) for each in report.hours])
    total = report.total
    out.line(
        f"{plural(total.record_count, 'record')}, {human_bytes(total.payload_bytes)} in "
        f"{plural(len(report.segments), 'segment')} and {plural(len(report.hours), 'hour')}"
    )
    if report.plot is not None:
        out.line(f"drawn to {report.plot}")


def _cells(figures: "Figures") -> tuple[str, ...]:
    return (
        human_count(figures.record_count),
        human_bytes(figures.payload_bytes),
        human_bytes(figures.payload_len_min),
        human_bytes(figures.payload_len_mean),
        human_bytes(figures.payload_len_max),
        "-" if figures.records_per_s is None else f"{figures.records_per_s:,.3g}",
        "-" if figures.bytes_per_s is None else human_bytes(figures.bytes_per_s),
    )


def _print(out: Output, report: Any, print_text: Callable[[Output, Any], None]) -> None:
    if out.as_json:
        out.object(report.to_dict())
    else:
        print_text(out, report)


# ---- running a job ----


@contextmanager
def _job(
    out: Output, log: str, master: str, conf: tuple[str, ...], **wanted: Any
) -> "Iterator[tuple[SparkSession, Callable[[Progress], None]]]":
    """Give a session and what shows progress; explain what fails inside."""
    settings = dict(_setting(text) for text in conf)
    with _explained():
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


@contextmanager
def _explained() -> "Iterator[None]":
    """Say of errors of Spark what a person can do about them."""
    from aof2.spark.errors import InvalidOption, InvalidSchema, PackageMismatch
    from aof2.spark.write.publish import TargetExists

    try:
        yield
    except PackageMismatch as error:
        message, _, hint = str(error).rpartition("; ")
        raise CommandError(ExitCode.USAGE, "missing_dependency", message, hint) from None
    except (InvalidOption, InvalidSchema) as error:
        raise usage(str(error)) from None
    except TargetExists as error:
        message, _, hint = str(error).rpartition("; ")
        path = error.filename
        raise CommandError(ExitCode.USAGE, "exists", message, hint, path=path) from None
    except Exception as error:
        failure = _of_spark(error)
        if failure is None:
            raise
        raise failure from error


def _of_spark(error: Exception) -> CommandError | None:
    if sys.modules.get("pyspark") is None:
        return None
    from pyspark.errors import PySparkException

    if isinstance(error, import_module("py4j.protocol").Py4JError):
        return CommandError(ExitCode.IO, "spark", f"the job failed: {_said(error)}")
    if not isinstance(error, PySparkException):
        return None
    match error.getCondition():
        case "JAVA_GATEWAY_EXITED":
            return CommandError(
                ExitCode.USAGE,
                "missing_dependency",
                "Spark's JVM did not start",
                "it needs Java 17 or newer: JAVA_HOME, or java on the path",
            )
        case "PATH_ALREADY_EXISTS":
            return CommandError(
                ExitCode.USAGE,
                "exists",
                "TARGET exists already",
                "--mode overwrite replaces it, --mode append adds to it",
            )
    return CommandError(ExitCode.IO, "spark", f"the job failed: {_said(error)}")


#: The end of a Python traceback: what was raised, and what it says.
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*: (.+)$", re.MULTILINE)


def _said(error: Exception) -> str:
    """Return the line of a long text that a person needs."""
    text = str(error)
    raised = _RAISED.findall(text.split("JVM stacktrace")[0])
    return raised[-1] if raised else next(iter(text.splitlines()), type(error).__name__)


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
