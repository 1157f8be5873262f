"""A server that is stopped and started under busy logs, and one that has no such bucket."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import aof2
import pytest
from aof2_dev.s3 import S3Server
from cold_logs import PATIENCE, SEGMENT, eventually, payload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOGS = 4


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server of the test's own, which it may stop."""
    with S3Server(tmp_path / "s3") as server:
        server.create_bucket("outage")
        for name, value in server.env().items():
            monkeypatch.setenv(name, value)
        yield server


def cold(log: aof2.Aof) -> aof2.ColdStatus:
    status = log.tiers().cold
    assert status is not None
    return status


def while_writing(logs: list[aof2.Aof], act: Callable[[], None]) -> None:
    """Write to all logs, a few segments a second, until `act` returns."""
    is_over = threading.Event()

    def write(log: aof2.Aof) -> None:
        n = 0
        while not is_over.wait(0.1):
            log.append_many([payload(i) for i in range(n, n + 20)])
            n += 20

    writers = [threading.Thread(target=write, args=[log]) for log in logs]
    for writer in writers:
        writer.start()
    try:
        act()
    finally:
        is_over.set()
        for writer in writers:
            writer.join()


def progress(logs: list[aof2.Aof]) -> None:
    """Wait until more of every log is archived."""
    before = [cold(log).archived for log in logs]
    eventually(lambda: all(cold(log).archived > n for log, n in zip(logs, before, strict=True)))


def go_through_an_outage(server: S3Server, logs: list[aof2.Aof]) -> None:
    progress(logs)
    server.stop()
    eventually(lambda: cold(logs[0]).down_since_ms is not None)
    before = cold(logs[-1])
    assert before.error is not None
    assert "the object store has not answered for" in before.error
    eventually(lambda: cold(logs[0]).probes >= before.probes + 3)
    after = cold(logs[0])
    # Nothing but probes, and what was about to be sent.
    assert after.requests - before.requests <= after.probes - before.probes + LOGS
    server.start()
    progress(logs)


def test_every_log_goes_on_when_the_server_is_back(own_server: S3Server, tmp_path: Path) -> None:
    # A pause after a failure would be longer than this test waits: there must be none.
    minutes = 60_000
    tiers = aof2.Tiers(cold="s3://outage/logs", retry_ms=10 * minutes, retry_ms_max=60 * minutes)
    with aof2.AofManager(tiers=tiers) as manager:
        logs = [
            manager.open(tmp_path / f"log{i}", segment_bytes=SEGMENT, preallocate_segments=0)
            for i in range(LOGS)
        ]
        while_writing(logs, lambda: go_through_an_outage(own_server, logs))
        for log in logs:
            log.seal()
            assert log.wait("archived", log.watermarks().appended, timeout=PATIENCE), log.tiers()
        eventually(lambda: all(cold(log).error is None for log in logs))


@pytest.mark.usefixtures("credentials")
def test_a_missing_bucket_is_told_and_is_no_outage(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = "aof2-comes-and-goes"
    tiers = aof2.Tiers(cold=f"s3://{bucket}/logs", retry_ms=20, retry_ms_max=200)
    with pytest.raises(aof2.ColdError, match="no such bucket; create it") as refused:
        aof2.Aof.open(tmp_path / "events", tiers=tiers)
    assert refused.value.kind == "no_such_bucket"
    s3_server.create_bucket(bucket)
    with aof2.Aof.open(tmp_path / "events", tiers=tiers) as log:
        log.append(b"one")
        log.seal()
        assert log.wait("archived", 1, timeout=PATIENCE)
        s3_server.delete_bucket(bucket)
        log.append(b"two")
        log.seal()
        eventually(lambda: cold(log).error is not None)
        status = cold(log)
        assert "there is no such bucket; create it, or correct its address" in str(status.error)
        assert (status.down_since_ms, status.outages, status.retries) == (None, 0, 0)
        s3_server.create_bucket(bucket)
        assert log.wait("archived", 2, timeout=PATIENCE)
        eventually(lambda: cold(log).error is None)
    s3_server.delete_bucket(bucket)
