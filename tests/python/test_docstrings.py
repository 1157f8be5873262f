"""The documentation says what is true: examples run, stubs fit, everything is described."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import aof2.catalog
import pytest
from aof2 import _aof2, _errors, _manifest_types, _types

if TYPE_CHECKING:
    from collections.abc import Iterator


def described() -> Iterator[tuple[str, Any]]:
    """Everything public with its name: classes, functions, their methods and properties."""
    yield "aof2", aof2
    for name in aof2.__all__:
        value = getattr(aof2, name)
        if name.startswith("_"):
            continue
        yield name, value
        if isinstance(value, type):
            for member in vars(value):
                inner = getattr(value, member)
                if not member.startswith("_") and (callable(inner) or is_property(inner)):
                    yield f"{name}.{member}", inner


def is_property(value: object) -> bool:
    return isinstance(value, property) or inspect.isgetsetdescriptor(value)


PUBLIC = dict(described())
EXAMPLES = [name for name, value in PUBLIC.items() if ">>>" in (value.__doc__ or "")]


def test_everything_public_is_described() -> None:
    assert len(PUBLIC) > 100
    missing = [name for name, value in PUBLIC.items() if not (value.__doc__ or "").strip()]
    assert missing == []


def test_everything_one_calls_or_holds_has_an_example() -> None:
    obvious = {
        "Divergence",
        "LostRange",
        "ManifestChunk",
        "ManifestProblem",
        "ManifestSegment",
        "ManifestSnapshot",
        "PendingDelete",
        "PendingUpload",
        "Problem",
        "ScrubFinding",
        "ScrubProgress",
        "ScrubReport",
        "ScrubUnreached",
        "SegmentCheck",
    }
    # tests/tiers has what needs a server.
    in_a_bucket = {
        "ColdLocation",
        "ColdStatus",
        "MissingSegment",
        "RestoreProgress",
        "RestoreReport",
        "archived",
        "restore",
        "scrub",
    }
    missing = [
        name
        for name, value in PUBLIC.items()
        if name not in EXAMPLES
        and name not in obvious | in_a_bucket
        and not is_property(value)
        and not (isinstance(value, type) and issubclass(value, aof2.Error))
        and not name.startswith(("RecordIds.", "VerifyReport.", "RepairReport."))
        and not name.startswith(("ManifestReport.", "RestoreReport.", "ScrubReport."))
        and name not in {"ReadableLog", "ReadableCatalog"}
    ]
    assert missing == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_do_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`log` is a new log named events; files go to a directory of their own.

    `manifest` is that of a closed log, in `path`, with a sealed and an unsealed segment.
    `catalog` is alice's, with the page store app in it, and `view` its state.
    """
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(PUBLIC[name]) or ""
    names: dict[str, Any] = {}
    if "manifest" in text and not name.startswith("Aof"):
        names["path"] = tmp_path / "recorded"
        with aof2.Aof.open(names["path"], manifest_mode="enabled") as recorded:
            recorded.append(b"sealed")
            recorded.seal()
            recorded.append(b"unsealed")
        names["manifest"] = aof2.Manifest.open(names["path"])
    elif name.startswith(("Catalog", "ReadableCatalog", "Pending")):
        names["catalog"] = aof2.Catalog.open(tmp_path / "root", actor="alice")
        names["catalog"].register_db("app", "pages").wait()
        names["view"] = names["catalog"].view()
    elif "log" in text:
        names["log"] = aof2.Aof.open(tmp_path / "events")
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    failures: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=failures.append)
    assert result.failed == 0, "".join(failures)
    assert result.attempted > 0


@pytest.mark.parametrize("name", aof2.catalog.__all__)
def test_values_of_a_catalog_are_described(name: str) -> None:
    value = getattr(aof2.catalog, name)
    assert (value.__doc__ or "").strip()
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, 0)
    failures: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=failures.append).failed == 0, failures


def test_the_stub_fits_the_module() -> None:
    package = Path(aof2.__file__).parent
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "aof2._aof2"],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=package.parent,
        env={"MYPYPATH": str(package.parent), "PYTHONPATH": str(package.parent), "PATH": ""},
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_exports_what_its_parts_have() -> None:
    internal = {"OpenOptions", "ManifestFiles"}
    for module in (_aof2, _errors, _types, _manifest_types):
        for name, value in vars(module).items():
            public = isinstance(value, type) and not name.startswith("_")
            if public and value.__module__.startswith("aof2") and name not in internal:
                assert getattr(aof2, name) is value, name
    assert set(aof2.__all__) == {*aof2.__all__}
    assert sorted(aof2.__all__) == list(aof2.__all__)
    assert (Path(aof2.__file__).parent / "py.typed").exists()
    assert aof2.__version__ == _aof2.__version__
