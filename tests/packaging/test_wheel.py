"""The wheel works in an empty environment, away from this tree.

`make test-python` builds the wheel and names it in AOF2_WHEEL; nothing is built here.
"""

import ast
import os
import subprocess
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: What only a clone has: the demo and the S3 server of the tests.
DEV = "aof2_dev"

SMOKE = """
import importlib.metadata
import sys
from pathlib import Path

import aof2

assert Path(aof2.__file__).is_relative_to(sys.prefix), aof2.__file__
assert importlib.metadata.version("aof2") == aof2.__version__

with aof2.Aof.open("events") as log:
    rid = log.append(b"hello")
    log.append_many([b"big", b"world"])
    log.flush()
    assert bytes(log.read(rid)) == b"hello"
with aof2.open("events") as reader:
    assert [bytes(record) for record in reader.scan()] == [b"hello", b"big", b"world"]
assert aof2.verify("events").is_healthy
print(aof2.__version__)
"""


@pytest.fixture(scope="module")
def wheel() -> Path:
    path = os.environ.get("AOF2_WHEEL")
    if not path:
        pytest.skip("AOF2_WHEEL is not set: run `make test-python`, which builds a wheel first")
    return Path(path)


@pytest.fixture(scope="module")
def empty_venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a virtual environment with nothing but the wheel and what it depends on."""
    root = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(root, with_pip=True, symlinks=True)
    run([root / "bin/python", "-m", "pip", "install", "--quiet", wheel], root.parent)
    return root


def run(command: list[str | Path], cwd: Path) -> str:
    # Nothing of the tree or of the environment of the tests may be found by accident.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    }
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def test_wheel_imports_appends_and_reads(empty_venv: Path, tmp_path: Path) -> None:
    version = run([empty_venv / "bin/python", "-W", "error", "-c", SMOKE], tmp_path)
    assert version


def test_wheel_brings_the_command(empty_venv: Path, tmp_path: Path) -> None:
    version = run(
        [empty_venv / "bin/python", "-c", "import aof2; print(aof2.__version__)"], tmp_path
    )
    assert version in run([empty_venv / "bin/aof2", "--version"], tmp_path)


def test_arrow_and_spark_are_not_needed_to_import(empty_venv: Path, tmp_path: Path) -> None:
    probe = "import sys, aof2, aof2.cli; print({'pyarrow', 'pyspark', 'numpy'} & set(sys.modules))"
    assert run([empty_venv / "bin/python", "-c", probe], tmp_path) == "set()"


def test_wheel_works_on_every_python_from_3_11_on(wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name


def test_wheel_holds_the_types_the_license_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "aof2/py.typed" in names
    assert "aof2/_aof2.pyi" in names
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "benches", "examples"))]
    assert len([name for name in names if name.endswith(".so")]) == 1


def test_wheel_holds_no_test_server_and_no_demo(wheel: Path) -> None:
    files = zipfile.ZipFile(wheel)
    names = [name for name in files.namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == set(packages())
    assert not [name for name in names if "demo" in name or "server" in name]
    texts = {name: files.read(name).decode() for name in names if name.endswith(".py")}
    assert not [name for name, text in texts.items() if "weed" in text or "SECRET" in text]


def test_nothing_in_the_wheel_needs_what_only_a_clone_has() -> None:
    assert (ROOT / "python" / DEV / "s3" / "server.py").exists()
    assert DEV not in packages()
    for package in packages():
        files = list((ROOT / "python" / package).rglob("*.py"))
        assert files
        assert [str(file) for file in files if DEV in imported_by(file)] == []


def packages() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names: list[str] = settings["tool"]["maturin"]["python-packages"]
    return names


def imported_by(file: Path) -> set[str]:
    """The top-level packages that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return {name.split(".")[0] for name in names}
