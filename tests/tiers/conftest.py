"""One S3 server for the run, a bucket for every test, and the client under test."""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aof2_dev.s3 import S3Server, find_weed
from fault_proxy import FaultProxy
from object_client import ObjectClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
BUCKETS = itertools.count(1)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if find_weed() is None:
        pytest.fail("the S3 server is missing: pip install --group tiers")
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def credentials(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is this process's object store, and that of its children."""
    for name, value in s3_server.env().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[str]:
    name = f"aof2-test-{next(BUCKETS)}"
    s3_server.create_bucket(name)
    yield name
    s3_server.delete_bucket(name)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.address) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def object_store_cli() -> Path:
    """The Rust client's program; `AOF2_OBJECT_STORE_CLI` names one that is built already."""
    named = os.environ.get("AOF2_OBJECT_STORE_CLI")
    if named:
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = ["cargo", "build", "--locked", "--quiet", "-p", "aof2-core"]
    command += ["--features", "s3", "--example", "object_store_cli"]
    subprocess.run(command, cwd=ROOT, check=True)
    return target / "debug" / "examples" / "object_store_cli"


@pytest.fixture
def connect(
    object_store_cli: Path, s3_server: S3Server, bucket: str
) -> Iterator[Callable[..., ObjectClient]]:
    """Makes clients of the test's bucket that end with the test."""
    clients: list[ObjectClient] = []

    def make(
        endpoint: str | None = None, env: dict[str, str] | None = None, **config: object
    ) -> ObjectClient:
        all_env = s3_server.env() | (env or {})
        if endpoint:
            all_env["AOF2_COLD_ENDPOINT"] = endpoint
        client = ObjectClient(object_store_cli, f"s3://{bucket}/logs", all_env, config)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()
