"""Encryption on the way (HTTPS) and at rest (SSE), on a real S3 server."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import aof2
import pytest
import trustme
from aof2_dev.s3 import S3Server, customer_key
from cold_logs import archive, contents, open_log, records
from fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("credentials")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def https(s3_server: S3Server, authority: trustme.CA) -> Iterator[FaultProxy]:
    """The server behind a certificate that only those trust who know the authority."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    with FaultProxy(s3_server.address, tls) as proxy:
        yield proxy


# In a process of its own: which authorities are trusted is read once.
ARCHIVE_AND_READ = """
import sys
from pathlib import Path

import aof2
from cold_logs import archive, contents, open_log, records

path, bucket = Path(sys.argv[1]), sys.argv[2]
with open_log(path, bucket) as log:
    log.append_many(records(0, 500))
    archive(log)
with aof2.open(f"s3://{bucket}/logs/{path.name}") as reader:
    assert contents(reader) == records(0, 500)
"""


def test_https_with_an_authority_of_ones_own(
    https: FaultProxy, authority: trustme.CA, bucket: str, tmp_path: Path
) -> None:
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    done = subprocess.run(
        [sys.executable, "-c", ARCHIVE_AND_READ, str(tmp_path / "events"), bucket],
        env=os.environ
        | {
            "SSL_CERT_FILE": str(bundle),
            "AOF2_COLD_ENDPOINT": https.endpoint,
            "PYTHONPATH": str(Path(__file__).parent),
        },
        check=False,
        timeout=240,
    )
    assert done.returncode == 0
    assert {"put", "get", "list"} <= {op for op, _ in https.seen}


def test_a_certificate_that_nobody_vouches_for_is_refused(
    https: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOF2_COLD_ENDPOINT", https.endpoint)
    done = subprocess.run(
        [sys.executable, "-m", "aof2", "info", f"s3://{bucket}/logs/events"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode != 0
    assert "invalid peer certificate" in done.stderr
    assert "SSL_CERT_FILE" in done.stderr
    assert "Traceback" not in done.stderr
    assert https.seen == [], "no request was sent"


# The server has no default key, so that "kms" alone is for those that have one.
@pytest.mark.parametrize(
    ("sse", "algorithm", "key"), [("s3", "AES256", None), ("kms:archive", "aws:kms", "archive")]
)
def test_objects_are_encrypted_by_the_store(
    s3_server: S3Server,
    bucket: str,
    tmp_path: Path,
    sse: str,
    algorithm: str,
    key: str | None,
) -> None:
    with open_log(tmp_path / "events", bucket, cold_sse=sse) as log:
        log.append_many(records(0, 500))
        archive(log)
    with aof2.open(f"s3://{bucket}/logs/events") as reader:
        assert contents(reader) == records(0, 500)
        objects = [segment.path.removeprefix("s3:/") for segment in reader.segments()]
    for path in objects:
        head = s3_server.request("HEAD", path)
        assert head.headers["x-amz-server-side-encryption"] == algorithm
        if key:
            named = head.headers["x-amz-server-side-encryption-aws-kms-key-id"]
            assert named.rsplit("/", 1)[-1] == key


def test_with_a_key_of_ones_own_nobody_else_reads_it(
    s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOF2_COLD_SSE", "customer")
    monkeypatch.setenv("AOF2_COLD_SSE_KEY", customer_key("a key"))
    with open_log(tmp_path / "events", bucket) as log:
        log.append_many(records(0, 500))
        archive(log)
    with aof2.open(f"s3://{bucket}/logs/events") as reader:
        assert contents(reader) == records(0, 500)
        path = reader.segments()[0].path.removeprefix("s3:/")
    assert s3_server.request("GET", path).status == 400
    monkeypatch.delenv("AOF2_COLD_SSE")
    with pytest.raises(aof2.ColdError):
        aof2.open(f"s3://{bucket}/logs/events")
