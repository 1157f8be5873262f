"""Logs that are nowhere but in a bucket are verified and scrubbed there, on a real server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import aof2
import pytest
from cold_logs import archive, open_log, payload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from aof2_dev.s3 import S3Server

pytestmark = pytest.mark.usefixtures("credentials")


@pytest.fixture
def url(bucket: str, tmp_path: Path) -> str:
    """A thousand archived records of which nothing is here."""
    with open_log(tmp_path / "events", bucket) as log:
        log.append_many(payload(n) for n in range(1000))
        archive(log)
    shutil.rmtree(tmp_path / "events")
    return f"s3://{bucket}/logs/events"


def damage(s3_server: S3Server, url: str, segment_id: int) -> aof2.Segment:
    """Flip a bit in the middle of an object."""
    with aof2.open(url) as reader:
        segment = reader.segments()[segment_id]
    key = segment.path.removeprefix("s3:/")
    body = bytearray(s3_server.request("GET", key).body)
    body[len(body) // 2] ^= 1
    assert s3_server.request("DELETE", key).status < 300
    assert s3_server.request("PUT", key, body=bytes(body)).status < 300
    return segment


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aof2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_an_intact_log_is_healthy_and_clean(url: str) -> None:
    seen: list[aof2.VerifyProgress] = []
    report = aof2.verify(url, progress=seen.append)
    assert report.is_healthy
    assert (report.path, report.name, report.record_count) == (url, "events", 1000)
    assert {segment.residency for segment in report.segments} == {"cold"}
    assert seen[-1].bytes_done == seen[-1].bytes_total > 0
    assert seen[-1].segments_done == seen[-1].segments_total == len(report.segments) > 2
    told: list[aof2.ScrubProgress] = []
    scrubbed = aof2.scrub(url, progress=told.append)
    assert scrubbed.is_clean
    assert scrubbed.is_complete
    assert scrubbed.bytes == seen[-1].bytes_total
    assert scrubbed.copies == told[-1].segments == told[-1].segments_total == len(report.segments)
    assert aof2.scrub(url, first_segment=1, end_segment=3).copies == 2


def test_damage_is_found_and_named(s3_server: S3Server, url: str) -> None:
    segment = damage(s3_server, url, 1)
    report = aof2.verify(url)
    assert not report.is_healthy
    (problem,) = report.problems
    assert problem.path == segment.path
    start, end = problem.records
    assert end is not None
    assert segment.first_offset <= start < end <= segment.first_offset + segment.record_count
    assert report.record_count == 1000 - (end - start)
    (finding,) = aof2.scrub(url).findings
    assert (finding.segment_id, finding.tier, finding.outcome) == (1, "cold", "damaged")
    assert (finding.place, finding.unreadable) == (segment.path, [(start, end)])


def test_the_commands_take_an_address(s3_server: S3Server, url: str, tmp_path: Path) -> None:
    done = run("verify", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("healthy: 1,000 records in ")
    done = run("scrub", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("clean: ")
    assert "0 copies" not in done.stdout
    segment = damage(s3_server, url, 1)
    done = run("verify", url)
    assert done.returncode == 5
    assert "damaged: 1 problem" in done.stdout
    report = json.loads(run("verify", "--json", url).stdout)
    assert report["problems"][0]["path"] == segment.path
    done = run("scrub", url)
    assert done.returncode == 5
    assert segment.path in done.stdout
    report = json.loads(run("scrub", "--json", "--bytes-per-second", "100000000", url).stdout)
    assert report["findings"][0]["outcome"] == "damaged"
    assert run("scrub", "--tier", "warm", url).returncode == 1
    assert run("verify", url.replace("events", "nothing")).returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("check", [aof2.verify, aof2.scrub])
def test_ctrl_c_and_what_progress_raises_end_it(url: str, check: Callable[..., object]) -> None:
    def interrupt(_progress: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def stop(_progress: object) -> None:
        raise RuntimeError("enough")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            check(url, progress=interrupt)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(RuntimeError, match="enough"):
        check(url, progress=stop)
