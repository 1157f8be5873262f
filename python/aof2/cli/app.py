"""The table of commands and the one place where everything ends.

A command's module is imported when the command runs, or when its own help is asked
for. The table carries the line for ``aof2 --help``, so that showing it imports none.
"""

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

import click

from aof2.cli.errors import CommandError, ExitCode, report
from aof2.cli.options import examples
from aof2.cli.streams import prepare

COMPLETE_VARIABLE = "_AOF2_COMPLETE"

#: name -> (module, line in the help). The module has its click command as ``command``.
COMMANDS: dict[str, tuple[str, str]] = {
    "info": ("aof2.cli.commands.info", "Show what a log holds and how it is."),
    "segments": ("aof2.cli.commands.segments", "List the segments of a log."),
    "append": ("aof2.cli.commands.append", "Append records from arguments, lines or files."),
    "cat": ("aof2.cli.commands.cat", "Print records of a range."),
    "tail": ("aof2.cli.commands.tail", "Print the last records, and follow with -f."),
    "verify": ("aof2.cli.commands.verify", "Check every byte of a log."),
    "repair": ("aof2.cli.commands.repair", "Repair a damaged log and say what is lost."),
    "import": ("aof2.cli.commands.import_", "Append records from JSON lines or Parquet."),
    "export": ("aof2.cli.commands.export", "Write records to JSON lines or Parquet."),
    "trim": ("aof2.cli.commands.trim", "Delete or archive old segments."),
    "seal": ("aof2.cli.commands.seal", "Close the active segment so that it can be trimmed."),
    "fork": ("aof2.cli.commands.fork", "Make a log that begins with the records of another."),
    "snapshot": (
        "aof2.cli.commands.snapshot",
        "Name a place of a log, list such places, or drop one.",
    ),
    "drop": ("aof2.cli.commands.drop", "Drop a log with all its records."),
    "detach": ("aof2.cli.commands.detach", "Copy what a fork shares into the fork."),
    "tree": (
        "aof2.cli.commands.tree",
        "Show the logs of a directory with their snapshots and forks.",
    ),
    "sweep": ("aof2.cli.commands.sweep", "Take away what crashes and dropped logs left."),
    "tiers": ("aof2.cli.commands.tiers", "Show which segments are hot, warm and cold."),
    "evict": ("aof2.cli.commands.evict", "Compress segments and remove their files."),
    "hydrate": ("aof2.cli.commands.hydrate", "Bring compressed segments back as files."),
    "pin": ("aof2.cli.commands.pin", "Keep segments in the hot tier, or no longer."),
    "upload": ("aof2.cli.commands.upload", "Archive segments in an object store."),
    "scrub": ("aof2.cli.commands.scrub", "Check every copy of every segment and heal damage."),
    "restore": ("aof2.cli.commands.restore", "Bring a log back from an object store."),
    "manifest": ("aof2.cli.commands.manifest", "Look at what a log recorded about its segments."),
    "catalog": ("aof2.cli.commands.catalog", "Look at the catalog of a directory of logs."),
    "oplog": (
        "aof2.cli.commands.oplog",
        "Look at the operation log of a catalog: who decided what, and when.",
    ),
    "spark": ("aof2.cli.commands.spark", "Run jobs over a log on Spark."),
    "top": ("aof2.cli.commands.top", "Watch the rates of running writers."),
    "bench": ("aof2.cli.commands.bench", "Measure this machine against its own bounds."),
    "completion": ("aof2.cli.commands.completion", "Print completion for bash, zsh or fish."),
}


_EPILOG = (
    examples(
        'aof2 append data/events "hello"',
        "aof2 cat data/events --from -15m",
        "aof2 tail -f data/events",
    )
    + """

\b
Exit codes:
  0    success
  1    wrong usage
  2    no such log, file or record
  3    not permitted
  4    I/O: disk full, locked by a writer, ...
  5    corruption found
  130  interrupted
"""
)


class _LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = get_close_matches(name, COMMANDS, n=1)
            meant = f" (did you mean {close[0]}?)" if close else ""
            ctx.fail(f"there is no command {name!r}{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from aof2 import __version__

        click.echo(f"aof2 {__version__}")
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    epilog=_EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Read, write, check and watch aof2 logs.

    A LOG is a directory. Every command takes --json for exact, machine-readable output
    and --help for examples.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Never raises, and shows no traceback unless ``AOF2_TRACEBACK`` is set.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    prepare()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt as error:
        return _interrupted(error, arguments)
    except BrokenPipeError:
        # Whoever read from us has seen enough; that is no failure.
        _discard_output()
        return ExitCode.SUCCESS
    except Exception as error:
        return _fail(error, arguments)
    return code


def _run(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    Without click's own ``main``, which takes a closed pipe and an interrupt for failures.
    """
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "aof2", COMPLETE_VARIABLE, instruction)
    try:
        with cli.make_context("aof2", arguments) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    return ExitCode.SUCCESS


def _interrupted(error: KeyboardInterrupt, arguments: list[str]) -> int:
    """End quietly, unless the command noted how far it got."""
    notes = getattr(error, "__notes__", [])
    if not notes:
        return ExitCode.INTERRUPTED
    message = "; ".join(["interrupted", *notes])
    return _fail(CommandError(ExitCode.INTERRUPTED, "interrupted", message), arguments)


def _fail(error: Exception, arguments: list[str]) -> int:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()
    try:
        return report(error, as_json=_wants_json(arguments))
    except BrokenPipeError:
        _discard_output()
        return ExitCode.IO


def _wants_json(arguments: list[str]) -> bool:
    """Whether errors are to be JSON.

    Looked up by hand: the error may be that the options could not be parsed.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def _discard_output() -> None:
    """Keep the interpreter from flushing into a closed pipe or full disk when it ends."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr) if _is_closed_pipe(sys.stderr) else (sys.stdout,):
        try:
            os.dup2(null, stream.fileno())
        except (OSError, ValueError):
            continue
    os.close(null)


def _is_closed_pipe(stream: object) -> bool:
    try:
        stream.flush()  # type: ignore[attr-defined]
    except OSError:
        return True
    return False
