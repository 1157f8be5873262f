"""A log is its id, a name belongs to one log, and one writer at a time archives."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import aof2
import pytest
from cold_logs import PATIENCE, SEGMENT, archive, contents, open_log, payload, records

if TYPE_CHECKING:
    from pathlib import Path

    from aof2_dev.s3 import S3Server

pytestmark = pytest.mark.usefixtures("credentials")


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aof2", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=PATIENCE,
        check=False,
    )


def keys(server: S3Server, bucket: str) -> list[str]:
    listing = server.request("GET", f"/{bucket}", {"list-type": "2"}).body.decode()
    return sorted(re.findall("<Key>(.*?)</Key>", listing))


def test_two_logs_of_one_name_never_mix(bucket: str, tmp_path: Path) -> None:
    """The second upload used to replace the second log's records by the first one's."""
    here, there, address = tmp_path / "x1/events", tmp_path / "x2/events", f"s3://{bucket}/logs"
    assert command("append", here, "host1").returncode == 0
    assert command("seal", here).returncode == 0
    assert command("upload", here, "--all", "--cold", address).returncode == 0
    assert command("append", there, "host2").returncode == 0
    refused = command("upload", there, "--all", "--cold", address)
    assert refused.returncode == 1, refused
    assert "belongs to another log" in refused.stderr
    assert "below another prefix" in refused.stderr
    assert command("cat", there).stdout == "host2\n"
    assert command("cat", here).stdout == "host1\n"
    assert not (there / "cold").exists()
    # Both are archived once the second has a prefix of its own.
    assert command("seal", there).returncode == 0
    assert command("upload", there, "--all", "--cold", f"{address}/2").returncode == 0
    assert command("cat", f"{address}/2/events").stdout == "host2\n"
    assert command("cat", f"{address}/events").stdout == "host1\n"


def test_logs_of_one_manager_do_not_share_a_name(bucket: str, tmp_path: Path) -> None:
    tiers = aof2.Tiers(cold=f"s3://{bucket}/logs")
    with aof2.AofManager(tiers=tiers) as manager:
        a = manager.open(tmp_path / "a/events", segment_bytes=SEGMENT)
        a.append(b"tenant a")
        archive(a)
        with pytest.raises(aof2.NameTaken) as taken:
            manager.open(tmp_path / "b/events", segment_bytes=SEGMENT)
        assert isinstance(taken.value, FileExistsError)
        assert (taken.value.name, taken.value.url) == ("events", f"s3://{bucket}/logs")
        assert taken.value.stream_id == a.stream_id
        assert not (tmp_path / "b").exists()
        b = manager.open(tmp_path / "b/events", name="b-events", segment_bytes=SEGMENT)
        b.append(b"tenant b")
        archive(b)
    assert aof2.archived(f"s3://{bucket}/logs") == ["b-events", "events"]
    with aof2.open(f"s3://{bucket}/logs/b-events") as reader:
        assert contents(reader) == [b"tenant b"]


def test_of_two_writers_one_is_told(bucket: str, tmp_path: Path) -> None:
    """Both used to be told that different records were archived under one offset."""
    first = open_log(tmp_path / "1/events", bucket)
    first.append_many(records(0, 100))
    archive(first)
    # The machine is copied, and the copy goes on.
    (tmp_path / "2").mkdir()
    shutil.copytree(tmp_path / "1/events", tmp_path / "2/events")
    (tmp_path / "2/events/lock").unlink(missing_ok=True)
    second = open_log(tmp_path / "2/events", bucket)
    second.append(b"written by the second")
    archive(second)
    rid = first.append(b"written by the first")
    first.flush()
    first.seal()
    with pytest.raises(aof2.Fenced) as fenced:
        first.wait("archived", rid, timeout=PATIENCE)
    assert f"process {os.getpid()}" in fenced.value.writer
    assert fenced.value.path == str(tmp_path / "1/events")
    with pytest.raises(aof2.Fenced):
        first.append(b"more")
    with pytest.raises(aof2.Fenced):
        first.flush()
    cold = first.tiers().cold
    assert cold is not None
    assert "taken over" in (cold.error or "")
    # Its reads go on, and what it had appended stays in its directory.
    assert contents(first)[:100] == records(0, 100)
    first.close()
    with aof2.open(f"s3://{bucket}/logs/events") as reader:
        assert contents(reader) == [*records(0, 100), b"written by the second"]
    with pytest.raises(aof2.Diverged) as diverged:
        open_log(tmp_path / "1/events", bucket)
    assert diverged.value.offset == 100
    # The other writer was not bothered.
    second.append(b"goes on")
    archive(second)
    second.close()
    with aof2.open(tmp_path / "1/events") as reader:
        assert contents(reader)[100:] == [b"written by the first"]


def test_a_lost_directory_comes_back_only_when_asked_for(bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with open_log(path, bucket) as log:
        log.append_many(records(0, 50))
        archive(log)
    shutil.rmtree(path)
    with pytest.raises(aof2.NameTaken, match="recover=True"):
        open_log(path, bucket)
    assert not path.exists()
    with open_log(path, bucket, recover=True) as log:
        assert contents(log) == records(0, 50)
        log.append(payload(50))
        archive(log)
    with aof2.open(f"s3://{bucket}/logs/events") as reader:
        assert contents(reader) == records(0, 51)


def test_recover_needs_something_to_recover_from(tmp_path: Path) -> None:
    with pytest.raises(aof2.InvalidConfig, match="recover"):
        aof2.Aof.open(tmp_path / "events", recover=True)
    with pytest.raises(aof2.InvalidConfig, match="recover: needs a cold tier"):
        aof2.Aof.open(tmp_path / "events", tiers=aof2.Tiers(), recover=True)
    with aof2.AofManager(tiers=aof2.Tiers()) as manager, pytest.raises(aof2.InvalidConfig):
        manager.open(tmp_path / "events", recover=True)
    assert not (tmp_path / "events").exists()


def test_a_segment_of_another_log_is_foreign(tmp_path: Path) -> None:
    """Logs with one directory name used to accept each other's segments."""
    paths = [tmp_path / name / "events" for name in "ab"]
    for path in paths:
        with aof2.Aof.open(path, segment_bytes=SEGMENT) as log:
            for n in range(20):
                log.append(payload(n) + path.parent.name.encode())
            log.seal()
            log.append(b"and more")
    ours, theirs = [sorted((path / "segments").glob("*.seg"))[0] for path in paths]
    # Under the name that it replaces.
    ours.write_bytes(theirs.read_bytes())
    report = aof2.verify(paths[0])
    assert not report.is_healthy
    with pytest.raises(aof2.ForeignFile):
        aof2.open(paths[0])


def test_old_claims_are_removed(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    """However often a log is opened, one claim and where it continues are left."""
    path = tmp_path / "events"
    for _ in range(3):
        with open_log(path, bucket) as log:
            log.append_many(records(0, 30))
            archive(log)
    claims = [key for key in keys(s3_server, bucket) if "/writer/" in key]
    assert len(claims) == 2, claims
    assert claims[0].endswith("/writer/00000003")
    assert ".from-" in claims[1]
