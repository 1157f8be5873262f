"""Logs with a cold tier on a real S3 server: archiving, reading through, losing the disk.

Through a proxy that fails: whatever it does, everything is in the bucket exactly once.
"""

from __future__ import annotations

import pickle
import shutil
from typing import TYPE_CHECKING

import aof2
import pytest
from cold_logs import PATIENCE, SEGMENT, archive, contents, eventually, open_log, payload, records
from fault_proxy import Fault, FaultProxy, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from aof2_dev.s3 import S3Server

pytestmark = pytest.mark.usefixtures("credentials")


def write(log: aof2.Aof, first: int, end: int) -> None:
    log.append_many(records(first, end))


def objects(server: S3Server, bucket: str) -> list[str]:
    """Keys of segments, by the server's own word."""
    listing = server.request("GET", f"/{bucket}", query={"list-type": "2", "prefix": "logs/"})
    text = listing.body.decode()
    keys = [part.split("</Key>")[0] for part in text.split("<Key>")[1:]]
    return sorted(key for key in keys if key.endswith(".zst"))


def test_a_lost_directory_comes_back_from_the_bucket(bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with open_log(path, bucket) as log:
        write(log, 0, 1000)
        rid = log.append(payload(1000))
        log.seal()
        assert log.wait("archived", rid, timeout=PATIENCE)
        status = log.tiers()
        assert status.cold is not None
        assert status.cold.archived == log.watermarks().archived == 1001
        assert status.cold.capabilities is not None
        assert status.cold.capabilities["conditional_create"]
    shutil.rmtree(path)
    with open_log(path, bucket, recover=True) as log:
        assert {s.residency for s in log.segments() if s.is_sealed} == {"cold"}
        assert contents(log) == records(0, 1001)
        write(log, 1001, 1500)
        archive(log)
    # Any reader of the directory finds the bucket by itself.
    with aof2.open(path) as reader:
        assert reader.watermarks().archived == 1500
        assert bytes(reader.read_offset(7).payload) == payload(7)
        assert contents(reader) == records(0, 1500)
    location = aof2.cold_location(path)
    assert location is not None
    assert location.url == f"s3://{bucket}/logs"
    assert "secret" not in (path / "cold" / "location").read_text()


def test_budgets_hold_and_one_old_record_costs_kilobytes(bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with open_log(
        path, bucket, hot_bytes=4 * SEGMENT, warm_bytes=1 << 14, frame_bytes=1 << 13
    ) as log:
        write(log, 0, 3000)
        archive(log)
        eventually(lambda: log.tiers().warm_bytes <= 1 << 14)
        eventually(lambda: log.tiers().hot_bytes <= 4 * SEGMENT)
        assert "cold" in {segment.residency for segment in log.segments()}
        local = sum(file.stat().st_size for file in (path / "warm").iterdir())
        assert local <= 1 << 14
        before = log.tiers().cold
        assert bytes(log.read_offset(5).payload) == payload(5)
        after = log.tiers().cold
        assert before is not None
        assert after is not None
        assert after.requests == before.requests + 1
        assert after.bytes_in - before.bytes_in < 1 << 14
        assert contents(log) == records(0, 3000)
        assert log.hydrate(0, timeout=PATIENCE) > 0
        assert log.segments()[0].residency == "hot"


def test_trimmed_segments_leave_the_bucket(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    with open_log(tmp_path / "events", bucket, cold_delete_after_ms=0) as log:
        write(log, 0, 2000)
        archive(log)
        before = objects(s3_server, bucket)
        gone = log.apply_retention(before_offset=1000).segments
        assert len(gone) > 1
        eventually(lambda: objects(s3_server, bucket) == before[len(gone) :])
        eventually(lambda: log.tiers().cold.deletes_pending == 0)  # type: ignore[union-attr]
        assert log.earliest_offset() == log.segments()[0].first_offset > 0


PASSING = [
    Kind.REFUSE,
    Kind.RESET_BEFORE,
    Kind.RESET_AFTER,
    Kind.UNAVAILABLE,
    Kind.THROTTLED,
    Kind.INTERNAL,
    Kind.EXPIRED,
    Kind.DENIED,
]


@pytest.mark.parametrize("kind", PASSING, ids=lambda kind: kind.value)
def test_whatever_fails_everything_is_archived_exactly_once(
    s3_server: S3Server,
    proxy: FaultProxy,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
) -> None:
    monkeypatch.setenv("AOF2_COLD_ENDPOINT", proxy.endpoint)
    path = tmp_path / "events"
    with open_log(path, bucket) as log:
        for op in ("put", "head", "list", "get", "multipart_list", "put", "put"):
            proxy.faults.append(Fault(kind, op))
        write(log, 0, 1500)
        archive(log)
        sealed = [segment for segment in log.segments() if segment.is_sealed]
    keys = objects(s3_server, bucket)
    assert len(keys) == len(sealed)
    # Of the first try of whichever claim succeeded.
    assert all(key.endswith("00.zst") for key in keys)
    shutil.rmtree(path)
    proxy.faults.append(Fault(kind, "get", count=2))
    proxy.faults.append(Fault(kind, "list"))
    log = open_when_it_answers(path, bucket)
    with log:
        assert read_when_it_answers(log) == records(0, 1500)


def open_when_it_answers(path: Path, bucket: str) -> aof2.Aof:
    """A fault that no retry gets over is the caller's to see; nothing is lost by it."""
    for _ in range(5):
        try:
            return open_log(path, bucket, recover=True)
        except aof2.Error:
            continue
    return open_log(path, bucket, recover=True)


def read_when_it_answers(log: aof2.Aof) -> list[bytes]:
    for _ in range(5):
        try:
            return contents(log)
        except aof2.Error:
            continue
    return contents(log)


def test_a_store_that_is_down_is_told_and_does_not_disturb(
    proxy: FaultProxy, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOF2_COLD_ENDPOINT", proxy.endpoint)
    path = tmp_path / "events"
    with open_log(path, bucket) as log:
        write(log, 0, 10)
        archive(log)
        proxy.faults.append(Fault(Kind.DENIED, None, count=1_000_000))
        write(log, 10, 1000)
        log.seal()
        assert not log.wait("archived", 1000, timeout=0.2)
        eventually(lambda: log.tiers().cold.error is not None)  # type: ignore[union-attr]
        error = log.tiers().cold.error  # type: ignore[union-attr]
        assert error is not None
        assert "denied" in error
        assert contents(log) == records(0, 1000)
        proxy.faults.clear()
        assert log.wait("archived", 1000, timeout=PATIENCE)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cold": "bucket"}, "s3://"),
        ({"cold": "s3://"}, "bucket"),
        ({"cold": "s3://bucket/a//b"}, "prefix|empty part|slash"),
        ({"warm_bytes": 1}, "needs cold"),
        ({"cold_endpoint": "http://x"}, "needs cold"),
        ({"cold": "s3://bucket/c", "cold_sse": "rot13"}, "must be none, s3, kms"),
        ({"cold": "s3://bucket/c", "cold_endpoint": "http://user:pw@h"}, "credentials"),
        ({"cold": "s3://bucket/c", "uploads_max": 0}, "from 1 to 64"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], words: str) -> None:
    with pytest.raises(aof2.InvalidConfig, match=words):
        aof2.Tiers(**options)  # type: ignore[arg-type]


def test_tiers_with_a_cold_tier_are_values() -> None:
    tiers = aof2.Tiers(
        cold="s3://bucket/c", cold_region="eu-central-1", cold_metadata={"team": "x"}
    )
    again = pickle.loads(pickle.dumps(tiers))
    assert again == tiers
    assert hash(again) == hash(tiers)
    assert eval(repr(tiers), {"Tiers": aof2.Tiers}) == tiers
    assert tiers != aof2.Tiers(cold="s3://bucket/d")


def test_waiting_for_the_archive_needs_one(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        rid = log.append(b"x")
        with pytest.raises(aof2.InvalidConfig, match="cold"):
            log.wait("archived", rid, timeout=1)
