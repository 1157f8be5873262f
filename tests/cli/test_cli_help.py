"""Help is complete, stays as it is unless meant to change, and costs nothing."""

import subprocess
import sys

import click
import pytest
from aof2.cli.app import COMMANDS, cli
from cli_support import check_golden, environment, run


@pytest.fixture(autouse=True)
def _same_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def test_help_of_the_whole_is_as_stored() -> None:
    result = run("--help").ok()
    check_golden("help", result.text)
    assert run().text == result.text
    assert run("-h").text == result.text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_is_as_stored(name: str) -> None:
    check_golden(f"help-{name}", run(name, "--help").ok().text)


def leaves(found: click.Command) -> list[click.Command]:
    """The command, or those of a group."""
    if not isinstance(found, click.Group):
        return [found]
    return [leaf for inner in found.commands.values() for leaf in leaves(inner)]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_of_commands_says_what_each_command_says(name: str) -> None:
    assert (command(name).help or "").splitlines()[0] == COMMANDS[name][1]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_json_examples_and_explained_options(name: str) -> None:
    for found in leaves(command(name)):
        options = [p for p in found.params if isinstance(p, click.Option)]
        assert any("--json" in option.opts for option in options), found.name
        assert "aof2 " in (found.epilog or "").partition("Examples:\n")[2], found.name
        assert all(option.help for option in options), found.name


def test_help_loads_no_command_and_nothing_heavy() -> None:
    script = (
        "import sys; from aof2.cli import main; main(['--help']);"
        "print([m for m in sys.modules if m.startswith(('pyarrow', 'pyspark', 'rich', 'numpy'))"
        " or m in ('aof2.cli.info', 'aof2.cli.cat', 'asyncio')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env=environment()
    )
    assert done.stderr.decode().strip() == "[]"


def test_version_is_the_one_of_the_package() -> None:
    import aof2

    assert run("--version").ok().text == f"aof2 {aof2.__version__}\n"
