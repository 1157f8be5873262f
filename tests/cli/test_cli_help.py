"""Help is complete, stays as it is unless meant to change, and costs nothing."""

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import click
import pytest
from aof2.cli import commands
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


def grouped() -> list[tuple[str, str]]:
    """The groups, and the commands of each."""
    groups = [(name, command(name)) for name in COMMANDS]
    return [
        (name, inner)
        for name, group in groups
        if isinstance(group, click.Group)
        for inner in sorted(group.commands)
    ]


@pytest.mark.parametrize(("group", "name"), grouped())
def test_help_of_each_command_of_a_group_is_as_stored(group: str, name: str) -> None:
    check_golden(f"help-{group}-{name}", run(group, name, "--help").ok().text)


def test_one_file_is_one_command() -> None:
    modules = [
        import_module(found.name)
        for found in walk_packages(commands.__path__, f"{commands.__name__}.")
    ]
    holding = {
        module.__name__: [v for v in vars(module).values() if isinstance(v, click.Command)]
        for module in modules
    }
    assert {name for name, found in holding.items() if len(found) > 1} == set()
    whole = len(COMMANDS) + len(grouped())
    assert sum(len(found) for found in holding.values()) == whole


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
        " or m.startswith('aof2.cli.commands') or m == 'asyncio'], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, env=environment()
    )
    assert done.stderr.decode().strip() == "[]"


def test_version_is_the_one_of_the_package() -> None:
    import aof2

    assert run("--version").ok().text == f"aof2 {aof2.__version__}\n"
