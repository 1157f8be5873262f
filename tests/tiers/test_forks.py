"""Forks of a log whose segments are in a bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aof2
import pytest
from cold_logs import archive, contents, eventually, open_log, payload, records

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("credentials")


def test_a_fork_reads_its_parent_in_the_bucket(bucket: str, tmp_path: Path) -> None:
    root = aof2.Root(tmp_path)
    with open_log(tmp_path / "events", bucket, hot_bytes=1 << 16, warm_bytes=1) as log:
        log.append_many(records(0, 1000))
        archive(log)
        for segment in log.segments():
            if segment.residency == "hot":
                log.evict(segment.segment_id)
        # The budget of the warm tier sees to the rest.
        eventually(lambda: {segment.residency for segment in log.segments()} == {"cold"})
        made = root.fork(log, "trial", at=600)
    expected = [*records(0, 600), b"own"]
    with aof2.Aof.open(made.path) as trial:
        trial.append(b"own")
        trial.flush()
        assert contents(trial) == expected
        assert bytes(trial.read_offset(300)) == payload(300)
    assert root.detach("trial") == 600
    with aof2.open(made.path) as reader:
        assert contents(reader) == expected
        assert {segment.residency for segment in reader.segments()} == {"hot"}


def test_an_address_is_neither_forked_nor_given_snapshots(bucket: str, tmp_path: Path) -> None:
    with open_log(tmp_path / "events", bucket) as log:
        log.append_many(records(0, 10))
        archive(log)
    with aof2.open(f"s3://{bucket}/logs/events") as reader:
        for call in (reader.fork, reader.snapshot):
            with pytest.raises(aof2.InvalidConfig, match="is an address"):
                call("x")


def test_a_fork_gets_a_cold_tier_when_it_is_detached(bucket: str, tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        log.append_many(records(0, 10))
        made = log.fork("trial", at=5)
    with pytest.raises(aof2.InvalidConfig, match="detach it"):
        open_log(tmp_path / "trial", bucket)
    aof2.Root(tmp_path).detach("trial")
    with open_log(tmp_path / "trial", bucket) as trial:
        archive(trial)
    with aof2.open(f"s3://{bucket}/logs/trial") as reader:
        assert contents(reader) == records(0, 5)
    assert made.offset == 5
