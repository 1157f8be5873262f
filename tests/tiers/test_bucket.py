"""Logs that are nowhere but in a bucket, on a real S3 server: read there, and restored."""

from __future__ import annotations

import errno
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import aof2
import pytest
from cold_logs import archive, contents, open_log, payload, records

if TYPE_CHECKING:
    from pathlib import Path

    from aof2_dev.s3 import S3Server

pytestmark = pytest.mark.usefixtures("credentials")


def archived(bucket: str, directory: Path, name: str, first: int, end: int) -> str:
    """Archive records of a stream, by a writer that comes and goes; its address."""
    path = directory / name
    with open_log(path, bucket, recover=True) as log:
        for n in range(first, end):
            log.append(payload(n), timestamp_ms=1_000 + n)
        archive(log)
    shutil.rmtree(path)
    return f"s3://{bucket}/logs/{name}"


def test_a_log_is_read_from_its_address(bucket: str, tmp_path: Path) -> None:
    url = archived(bucket, tmp_path, "events", 0, 1000)
    with aof2.open(url) as reader:
        assert isinstance(reader, aof2.Reader)
        assert (reader.path, reader.name) == (url, "events")
        marks = reader.watermarks()
        assert (marks.durable, marks.appended, marks.archived) == (1000, 1000, 1000)
        assert {segment.residency for segment in reader.segments()} == {"cold"}
        assert contents(reader) == records(0, 1000)
        record = reader.read_offset(700)
        assert bytes(record) == payload(700)
        assert bytes(reader.read(record.id)) == payload(700)
        assert reader.offset_at(1_500) == 500
        batches = reader.scan_arrow(columns=["offset"])
        import pyarrow as pa

        assert pa.RecordBatchReader.from_stream(batches).read_all().num_rows == 1000
        # By its address, and nothing else: no word of keys travels along.
        travelling = pickle.dumps(reader)
        assert os.environ["AOF2_COLD_SECRET_ACCESS_KEY"].encode() not in travelling
        with pickle.loads(travelling) as again:
            assert again.path == url
            assert bytes(again.read_offset(3)) == payload(3)
    with aof2.open(f"s3://{bucket}/logs/{reader.stream_id:016x}") as by_id:
        assert by_id.name == "events"


def test_a_follower_sees_what_is_archived_later(bucket: str, tmp_path: Path) -> None:
    url = archived(bucket, tmp_path, "events", 0, 100)
    seen = []
    with aof2.open(url) as reader:
        follow = reader.follow("earliest")
        seen += [bytes(next(follow)) for _ in range(100)]
        writer = threading.Thread(target=archived, args=(bucket, tmp_path, "events", 100, 150))
        writer.start()
        seen += [bytes(next(follow)) for _ in range(50)]
        writer.join()
    assert seen == records(0, 150)


def test_what_is_not_there_is_told(bucket: str, tmp_path: Path) -> None:
    archived(bucket, tmp_path, "events", 0, 10)
    archived(bucket, tmp_path, "orders", 0, 10)
    assert aof2.archived(f"s3://{bucket}/logs") == ["events", "orders"]
    assert aof2.archived(f"s3://{bucket}/nothing") == []
    with pytest.raises(aof2.NotALog, match='"events", "orders"') as missing:
        aof2.open(f"s3://{bucket}/logs/evnts")
    assert missing.value.path == f"s3://{bucket}/logs/evnts"
    for url in ("s3://", f"s3://{bucket}"):
        with pytest.raises(aof2.InvalidConfig):
            aof2.open(url)
    with pytest.raises(aof2.ColdError) as refused:
        aof2.open("s3://no-such-bucket-here/logs/events")
    error = refused.value
    assert isinstance(error, OSError)
    assert (error.kind, error.errno) == ("no_such_bucket", errno.ENOENT)
    assert "there is no such bucket; create it" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.kind, again.key, again.errno) == (
        str(error),
        error.kind,
        error.key,
        error.errno,
    )


def test_wrong_credentials_are_an_error_of_the_store(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = archived(bucket, tmp_path, "events", 0, 10)
    monkeypatch.setenv("AOF2_COLD_SECRET_ACCESS_KEY", "not the secret")
    with pytest.raises(aof2.ColdError) as denied:
        aof2.open(url)
    assert denied.value.kind == "denied"
    assert "not the secret" not in str(denied.value)


def test_a_restored_log_needs_the_bucket_no_more(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = "aof2-test-restore"
    s3_server.create_bucket(bucket)
    url = archived(bucket, tmp_path, "events", 0, 1000)
    target = tmp_path / "restored"
    seen: list[aof2.RestoreProgress] = []
    report = aof2.restore(url, target, progress=seen.append)
    assert isinstance(report, aof2.RestoreReport)
    assert (report.name, report.records, report.next_offset) == ("events", 1000, 1000)
    assert report.is_complete
    assert report.bytes == seen[-1].bytes_done == seen[-1].bytes_total > 0
    assert seen[-1].segments_done == seen[-1].segments_total == report.segments > 1
    assert json.dumps(report.to_dict())
    s3_server.delete_bucket(bucket)
    monkeypatch.setenv("AOF2_COLD_ENDPOINT", "http://127.0.0.1:1")
    with aof2.open(target) as reader:
        assert {segment.residency for segment in reader.segments()} == {"warm"}
        assert contents(reader) == records(0, 1000)


def test_an_index_is_enough_where_the_bucket_is(bucket: str, tmp_path: Path) -> None:
    url = archived(bucket, tmp_path, "events", 0, 500)
    target = tmp_path / "restored"
    assert aof2.restore(url, target, download=False).bytes == 0
    with aof2.open(target) as reader:
        assert {segment.residency for segment in reader.segments()} == {"cold"}
        assert contents(reader) == records(0, 500)
    assert aof2.restore(url, target).bytes > 0
    with pytest.raises(aof2.InvalidConfig, match="the log"):
        aof2.restore(archived(bucket, tmp_path, "orders", 0, 5), target)


def test_what_progress_raises_ends_a_restore_that_is_then_run_again(
    bucket: str, tmp_path: Path
) -> None:
    url = archived(bucket, tmp_path, "events", 0, 1000)
    target = tmp_path / "restored"

    def stop(progress: aof2.RestoreProgress) -> None:
        if progress.segments_done == 2:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        aof2.restore(url, target, progress=stop)
    # Its lock is free by now.
    assert aof2.restore(url, target).records == 1000
    with aof2.open(target) as reader:
        assert contents(reader) == records(0, 1000)


def test_ctrl_c_ends_a_restore(bucket: str, tmp_path: Path) -> None:
    url = archived(bucket, tmp_path, "events", 0, 1000)
    target = tmp_path / "restored"

    def interrupt(progress: aof2.RestoreProgress) -> None:
        if progress.segments_done == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        aof2.restore(url, target, progress=interrupt)
    assert aof2.restore(url, target).is_complete


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aof2", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_commands_take_an_address(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    url = archived(bucket, tmp_path, "events", 0, 300)
    facts = json.loads(run("info", "--json", url).stdout)
    assert (facts["path"], facts["name"], facts["record_count"]) == (url, "events", 300)
    assert "unknown" in run("info", url).stdout
    segments = [json.loads(line) for line in run("segments", "--json", url).stdout.splitlines()]
    assert {segment["residency"] for segment in segments} == {"cold"}
    assert run("cat", url, "--from", "298", "-o", "raw").stdout.encode() == b"".join(
        payload(n) + b"\n" for n in (298, 299)
    )
    assert "record 000299" in run("tail", "-n", "1", url).stdout
    for command in (["tiers", url], ["top", "--count", "1", url]):
        assert run(*command).returncode == 0

    target = str(tmp_path / "restored")
    done = run("restore", url, target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("restored events: 300 records in ")
    assert json.loads(run("restore", "--json", "--index-only", url, target).stdout)["bytes"] == 0
    assert run("verify", target).returncode == 0

    missing = run("cat", f"s3://{bucket}/logs/nothing")
    assert missing.returncode == 2
    assert "events" in missing.stderr
    missing = run("cat", "s3://no-such-bucket-here/logs/events")
    assert missing.returncode == 2
    assert "no such bucket; create it" in missing.stderr
    assert "network" not in missing.stderr
    damaged = segments[1]["path"].removeprefix("s3:/")
    assert s3_server.request("DELETE", damaged).status < 300
    done = run("restore", url, str(tmp_path / "partly"))
    assert done.returncode == 5
    assert "1 segment missing" in done.stdout
