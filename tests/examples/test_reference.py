"""docs/reference.md lists exactly what the code has: options, errors, metrics, variables."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aof2
import pytest
from aof2.cli.errors import describe

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference.md").read_text()
CORE = ROOT / "crates" / "aof2-core" / "src"
RUST = [
    path
    for path in CORE.rglob("*.rs")
    if not {"tests", "tests.rs", "sim"}.intersection(path.relative_to(CORE).parts)
]
RUST_TEXT = "\n".join(path.read_text() for path in sorted(RUST))

# Options of the simulated disk, and those of one compressed file, which TierConfig has.
NOT_SET_BY_USERS = {"CrashOptions", "ArtifactOptions"}
STRUCTS = {
    name: re.findall(r"^    pub (\w+):", body, re.M)
    for name, body in re.findall(
        r"^pub struct (\w+(?:Config|Options|Policy)) \{\n(.*?)^\}", RUST_TEXT, re.M | re.S
    )
    if name not in NOT_SET_BY_USERS
}
EXCEPTIONS = [
    value
    for name in aof2.__all__
    if isinstance(value := getattr(aof2, name), type) and issubclass(value, aof2.Error)
]


def rows(heading: str) -> list[list[str]]:
    """Cells of the tables between a heading and the next one, without their first rows."""
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", PAGE, re.M | re.S)
    assert found is not None, f"there is no section {heading}"
    tables = re.findall(r"^\|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", found[1], re.M)
    lines = "".join(tables).splitlines()
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)", cell)


def column(heading: str, index: int) -> list[str]:
    return [name for row in rows(heading) for name in names(row[index])]


def test_the_sources_are_found() -> None:
    assert len(STRUCTS) >= 10
    assert len(EXCEPTIONS) > 20


@pytest.mark.parametrize("struct", STRUCTS)
def test_every_field_of_a_configuration_has_a_row(struct: str) -> None:
    assert sorted(column(struct, 0)) == sorted(STRUCTS[struct])


@pytest.mark.parametrize(
    "call", [aof2.Aof.open, aof2.AofManager, aof2.Tiers, aof2.restore, aof2.Catalog.open]
)
def test_every_option_of_python_is_listed(call: Callable[..., Any]) -> None:
    configuration = PAGE[PAGE.index("## Configuration") : PAGE.index("## Errors")]
    # What a restore is called with besides its options.
    options = set(inspect.signature(call).parameters) - {"url", "target", "progress"}
    assert [name for name in sorted(options) if f"`{name}`" not in configuration] == []


def test_every_error_of_rust_has_a_row() -> None:
    body = re.search(r"^pub enum AofError \{\n(.*?)^\}", RUST_TEXT, re.M | re.S)
    assert body is not None
    variants = re.findall(r"^    ([A-Z]\w*)", body[1], re.M)
    assert sorted(column("Errors", 0)) == sorted(variants)


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda cls: cls.__name__)
def test_every_exception_has_a_row_with_its_exit_code(exception: type[aof2.Error]) -> None:
    row = next(row for row in rows("Errors") if names(row[1])[0] == exception.__name__)
    builtin = exception.__mro__[2 if exception is not aof2.Error else 1]
    assert builtin.__name__ in [*names(row[1]), "Exception"]
    if exception is aof2.ColdError:
        return
    error = exception.__new__(exception, "text")
    failure = describe(error)
    assert f"{failure.code} `{failure.kind}`" in row[3]


@pytest.mark.parametrize("row", rows("Kinds of ColdError"), ids=lambda row: names(row[0])[0])
def test_every_kind_of_a_cold_error_has_its_exit_code(row: list[str]) -> None:
    error = aof2.ColdError("text", kind=names(row[0])[0], operation="get", key="a")
    assert str(int(describe(error).code)) == row[2].strip()


def test_every_kind_of_a_cold_error_has_a_row() -> None:
    body = re.search(r"^pub enum ObjectErrorKind \{\n(.*?)^\}", RUST_TEXT, re.M | re.S)
    assert body is not None
    kinds = [
        re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
        for name in re.findall(r"^    ([A-Z]\w*)", body[1], re.M)
    ]
    assert sorted(column("Kinds of ColdError", 0)) == sorted(kinds)


def test_every_kind_of_failure_of_a_command_is_listed() -> None:
    code = "\n".join(path.read_text() for path in (ROOT / "python/aof2/cli").rglob("*.py"))
    kinds = set(re.findall(r"ExitCode\.\w+,\s*\"(\w+)\"", code))
    assert len(kinds) > 20
    assert [kind for kind in sorted(kinds) if f"`{kind}`" not in PAGE] == []


def test_every_metric_has_a_row_with_its_type(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "log") as log:
        text = log.metrics_text()
    # The golden text of logs that have more: tiers, an object store.
    text += "".join(path.read_text() for path in sorted(CORE.rglob("*.prom")))
    metrics = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    assert "aof2_tier_object_requests_total" in metrics
    listed = {names(row[0])[0]: row[1].strip() for row in rows("Metrics") if len(row) == 4}
    assert {name: listed.get(name) for name in metrics} == metrics
    stems = {re.sub(r"^aof2_(manifest_|tier_)?|_total$", "", name) for name in listed}
    assert sorted(stem for stem in stems if stem not in text + RUST_TEXT) == []


def test_every_environment_variable_is_listed() -> None:
    package = (ROOT / "python" / "aof2").rglob("*.py")
    sources = [path for path in package if "demo" not in path.parts] + RUST
    code = "\n".join(path.read_text() for path in sources)
    # The name by which the credentials are known to the AWS library is no variable.
    variables = set(re.findall(r"\"(AOF2_\w+)\"", code)) - {"AOF2_COLD"}
    assert len(variables) > 5
    assert sorted(set(column("Environment variables", 0)) & variables) == sorted(variables)
