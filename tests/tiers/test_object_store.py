"""The client against a real S3 server: what it does, and what it does when something fails."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from aof2_dev.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server, customer_key
from fault_proxy import Fault, FaultProxy, Kind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from object_client import ObjectClient

    Connect = Callable[..., ObjectClient]

MIB = 1 << 20
SMALL = 100_000
LARGE = 11 * MIB  # three parts

# Faults that a later try gets over.
PASSING = [
    Kind.REFUSE,
    Kind.RESET_BEFORE,
    Kind.RESET_AFTER,
    Kind.UNAVAILABLE,
    Kind.THROTTLED,
    Kind.INTERNAL,
    Kind.SLOW,
    Kind.EXPIRED,
]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small"
    path.write_bytes(os.urandom(SMALL))
    return path


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(LARGE))
    return path


def assert_exactly_once(
    server: S3Server, bucket: str, client: ObjectClient, key: str, file: Path
) -> None:
    """One object with these bytes and nothing unfinished, by the server's own word."""
    assert client.ok("list", "logs/")["objects"] == [[key, file.stat().st_size]]
    assert client.ok("unfinished", "logs/")["keys"] == []
    answer = server.request("GET", f"/{bucket}/{key}")
    assert answer.status == 200
    assert answer.body == file.read_bytes()


def test_the_probe_says_what_the_server_does(connect: Connect) -> None:
    client = connect()
    found = client.ok("probe")
    assert found == {
        "ok": True,
        "conditional_create": True,
        "conditional_finish": True,
        "checksum_kept": True,
        "checksum_verified": True,
        "multipart_checksum_verified": True,
        "suffix_range": True,
    }
    # It leaves nothing behind.
    assert client.ok("list", "logs")["objects"] == []
    assert client.ok("unfinished", "logs")["keys"] == []


@pytest.mark.parametrize("size", [0, 1, SMALL, 5 * MIB, 5 * MIB + 1, LARGE])
def test_what_is_put_is_got(
    connect: Connect, s3_server: S3Server, bucket: str, tmp_path: Path, size: int
) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(size))
    client = connect()
    put = client.ok("put", "logs/a", source)
    assert not put["already_there"]
    got = client.ok("get", "logs/a", copy)
    assert copy.read_bytes() == source.read_bytes()
    assert got["crc64nvme"] == put["crc64nvme"]
    assert got["user"]["aof2-segment-id"] == "7"
    # The same again is recognised, other bytes are refused.
    assert client.ok("put", "logs/a", source)["already_there"]
    source.write_bytes(os.urandom(size + 1))
    assert client.call("put", "logs/a", source)["kind"] == "Exists"
    assert_exactly_once(s3_server, bucket, client, "logs/a", copy)


def test_a_small_read_of_a_large_object_is_small(connect: Connect, large: Path) -> None:
    client = connect()
    client.ok("put", "logs/a", large)
    data = large.read_bytes()
    assert (
        client.ok("range", "logs/a", 7_000_000, 7_000_100)["hex"] == data[7_000_000:7_000_100].hex()
    )
    assert client.ok("suffix", "logs/a", 100) == {
        "ok": True,
        "hex": data[-100:].hex(),
        "len": LARGE,
    }
    metrics = client.ok("metrics")
    assert metrics["bytes_in"] == 200
    assert metrics["get"]["requests"] == 2
    assert client.call("range", "logs/a", LARGE - 1, LARGE + 1)["kind"] == "InvalidRequest"


def test_what_is_not_there(connect: Connect) -> None:
    client = connect()
    assert client.ok("head", "logs/a") == {"ok": True, "found": False}
    missing = client.call("range", "logs/a", 0, 1)
    assert (missing["kind"], missing["reason"]) == ("NotFound", 4)
    client.ok("delete", "logs/a")


@pytest.mark.parametrize("sse", ["s3", "customer"])
@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_encryption(
    connect: Connect, s3_server: S3Server, bucket: str, tmp_path: Path, sse: str, size: int
) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(size))
    env = {"AOF2_COLD_SSE": sse}
    if sse == "customer":
        env["AOF2_COLD_SSE_KEY"] = customer_key("one")
    client = connect(env=env)
    client.ok("probe")
    client.ok("put", "logs/a", source)
    assert client.ok("put", "logs/a", source)["already_there"]
    client.ok("get", "logs/a", copy)
    assert copy.read_bytes() == source.read_bytes()
    plain = s3_server.request("GET", f"/{bucket}/logs/a")
    if sse == "customer":
        assert plain.status >= 400
        wrong = connect(env=env | {"AOF2_COLD_SSE_KEY": customer_key("another")})
        assert not wrong.call("range", "logs/a", 0, 10)["ok"]
    else:
        assert plain.headers["x-amz-server-side-encryption"] == "AES256"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", [*PASSING, Kind.FLIPPED])
def test_an_upload_is_there_once_after(
    connect: Connect,
    s3_server: S3Server,
    bucket: str,
    proxy: FaultProxy,
    small: Path,
    kind: Kind,
    count: int,
) -> None:
    client = connect(proxy.endpoint, request_timeout_ms=1000)
    proxy.plan(Fault(kind, "put", count))
    put = client.ok("put", "logs/a", small)
    assert proxy.hits(kind) == count
    assert put["already_there"] == (kind is Kind.RESET_AFTER)
    assert_exactly_once(s3_server, bucket, client, "logs/a", small)


def test_half_an_upload_is_none(
    connect: Connect, s3_server: S3Server, bucket: str, proxy: FaultProxy, small: Path
) -> None:
    client = connect(proxy.endpoint)
    proxy.plan(Fault(Kind.TRUNCATED_REQUEST, "put"))
    client.ok("put", "logs/a", small)
    assert proxy.hits(Kind.TRUNCATED_REQUEST) == 1
    assert_exactly_once(s3_server, bucket, client, "logs/a", small)


@pytest.mark.parametrize("op", ["head", "multipart_begin", "multipart_part", "multipart_finish"])
@pytest.mark.parametrize("kind", PASSING)
def test_a_multipart_upload_is_there_once_after(
    connect: Connect,
    s3_server: S3Server,
    bucket: str,
    proxy: FaultProxy,
    large: Path,
    kind: Kind,
    op: str,
) -> None:
    client = connect(proxy.endpoint)
    proxy.plan(Fault(kind, op, 2))
    client.ok("put", "logs/a", large)
    assert proxy.hits(kind) == 2
    assert_exactly_once(s3_server, bucket, client, "logs/a", large)


@pytest.mark.parametrize("kind", [Kind.DROPPED, Kind.FLIPPED, Kind.TRUNCATED_REQUEST])
def test_a_part_that_did_not_arrive_is_sent_again(
    connect: Connect,
    s3_server: S3Server,
    bucket: str,
    proxy: FaultProxy,
    large: Path,
    kind: Kind,
) -> None:
    client = connect(proxy.endpoint)
    proxy.plan(Fault(kind, "multipart_part"))
    client.ok("put", "logs/a", large)
    assert proxy.hits(kind) == 1
    assert_exactly_once(s3_server, bucket, client, "logs/a", large)


def test_an_upload_that_fails_for_good_leaves_nothing(
    connect: Connect, proxy: FaultProxy, large: Path
) -> None:
    client = connect(proxy.endpoint)
    proxy.plan(Fault(Kind.DENIED, "multipart_part", 100))
    failed = client.call("put", "logs/a", large)
    assert (failed["kind"], failed["reason"]) == ("Denied", 2)
    assert client.ok("list", "logs/")["objects"] == []
    assert client.ok("unfinished", "logs/")["keys"] == []


READS: dict[str, tuple[object, ...]] = {
    "get": ("range", "logs/a", 1000, 60_000),
    "suffix": ("suffix", "logs/a", 50_000),
    "head": ("head", "logs/a"),
    "list": ("list", "logs/"),
    "multipart_list": ("unfinished", "logs/"),
}


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (op, kind)
        for op in READS
        for kind in [*PASSING, Kind.TRUNCATED]
        # The answer to a head has no body.
        if (op, kind) != ("head", Kind.TRUNCATED)
    ],
)
def test_a_read_gives_the_same_after(
    connect: Connect, proxy: FaultProxy, small: Path, kind: Kind, op: str
) -> None:
    client = connect(proxy.endpoint, request_timeout_ms=1000)
    client.ok("put", "logs/a", small)
    expected = client.ok(*READS[op])
    proxy.plan(Fault(kind, "get" if op == "suffix" else op, 2))
    assert client.ok(*READS[op]) == expected
    assert proxy.hits(kind) == 2


def test_a_flipped_byte_is_noticed_when_a_whole_object_is_read(
    connect: Connect, proxy: FaultProxy, small: Path, tmp_path: Path
) -> None:
    client = connect(proxy.endpoint)
    client.ok("put", "logs/a", small)
    proxy.plan(Fault(Kind.FLIPPED, "get"))
    assert client.call("get", "logs/a", tmp_path / "copy")["kind"] == "Corrupt"
    client.ok("get", "logs/a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == small.read_bytes()


@pytest.mark.parametrize("kind", PASSING)
def test_a_delete_removes_one_object_after(
    connect: Connect, proxy: FaultProxy, small: Path, kind: Kind
) -> None:
    client = connect(proxy.endpoint, request_timeout_ms=1000)
    client.ok("put", "logs/a", small)
    client.ok("put", "logs/b", small)
    proxy.plan(Fault(kind, "delete", 2))
    client.ok("delete", "logs/a")
    assert proxy.hits(kind) == 2
    assert client.ok("list", "logs/")["objects"] == [["logs/b", SMALL]]


@pytest.mark.parametrize("kind", PASSING)
def test_unfinished_uploads_are_aborted_after(
    connect: Connect, proxy: FaultProxy, kind: Kind
) -> None:
    client = connect(proxy.endpoint, request_timeout_ms=1000)
    for key in ("logs/a", "logs/b", "other/c"):
        client.ok("begin", key)
    proxy.plan(Fault(kind, "multipart_abort"), Fault(kind, "multipart_list"))
    assert client.ok("abort", "logs/")["count"] == 2
    assert proxy.hits(kind) == 2
    assert client.ok("unfinished", "other/")["keys"] == ["other/c"]


def test_a_server_that_is_down_is_left_alone(
    connect: Connect, proxy: FaultProxy, small: Path
) -> None:
    client = connect(proxy.endpoint, breaker_failures=4, probe_ms=600_000)
    proxy.plan(Fault(Kind.REFUSE, count=1000))
    failed = client.call("put", "logs/a", small)
    assert (failed["kind"], failed["reason"]) == ("Unavailable", 3)
    before = proxy.hits(Kind.REFUSE)
    assert before == 4 + 1  # tries, and the probe
    assert client.call("put", "logs/a", small)["kind"] == "Unavailable"
    assert proxy.hits(Kind.REFUSE) == before
    metrics = client.ok("metrics")
    assert (metrics["is_down"], metrics["outages"], metrics["probes"]) == (True, 1, 1)


def test_nobody_listens(connect: Connect, small: Path) -> None:
    with FaultProxy(("127.0.0.1", 1)) as proxy:
        endpoint = proxy.endpoint
    failed = connect(endpoint).call("put", "logs/a", small)
    assert (failed["kind"], failed["reason"]) == ("Unavailable", 3)
    assert "refused" in failed["error"]


def test_credentials_that_stay_expired_are_told(connect: Connect, proxy: FaultProxy) -> None:
    client = connect(proxy.endpoint)
    proxy.plan(Fault(Kind.EXPIRED, count=1000))
    failed = client.call("list", "logs/")
    assert (failed["kind"], failed["reason"]) == ("Denied", 2)


@pytest.mark.parametrize(
    "env",
    [
        {"AOF2_COLD_SECRET_ACCESS_KEY": "wrong-secret"},
        {"AOF2_COLD_ACCESS_KEY_ID": "nobody"},
        {"AOF2_COLD_ACCESS_KEY_ID": "", "AOF2_COLD_SECRET_ACCESS_KEY": ""},
    ],
)
def test_wrong_credentials_are_denied_and_not_shown(connect: Connect, env: dict[str, str]) -> None:
    client = connect(env=env)
    answers: list[dict[str, Any]] = [client.call("list", "logs/"), client.call("head", "logs/a")]
    for answer in answers:
        assert (answer["kind"], answer["reason"]) == ("Denied", 2)
        for secret in ("wrong-secret", SECRET_ACCESS_KEY):
            assert secret not in answer["error"]
    # Refused is not down: nobody is kept waiting.
    metrics = client.ok("metrics")
    assert (metrics["is_down"], metrics["outages"], metrics["probes"]) == (False, 0, 0)


def test_credentials_come_from_the_standard_chain(connect: Connect, small: Path) -> None:
    client = connect(
        env={
            "AOF2_COLD_ACCESS_KEY_ID": "",
            "AOF2_COLD_SECRET_ACCESS_KEY": "",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }
    )
    client.ok("put", "logs/a", small)


def test_a_listing_has_every_page(connect: Connect, s3_server: S3Server, bucket: str) -> None:
    keys = [f"logs/{i:04}" for i in range(1003)]
    for key in keys:
        assert s3_server.request("PUT", f"/{bucket}/{key}", body=b"x").status == 200
    client = connect()
    assert client.ok("list", "logs/")["objects"] == [[key, 1] for key in keys]
    assert client.ok("metrics")["list"]["requests"] == 2
