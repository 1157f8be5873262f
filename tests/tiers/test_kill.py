"""A writer with a cold tier is killed, again and again, and its disk is lost now and then."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import aof2
import pytest

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = int(os.environ.get("AOF2_KILL_ROUNDS", "12"))

WRITER = """
import sys
import aof2

path, bucket = sys.argv[1:]
tiers = aof2.Tiers(
    cold=f"s3://{bucket}/logs", hot_bytes=1 << 18, warm_bytes=1 << 14, retry_ms=20,
    compression_level=1, cold_delete_after_ms=0,
)
with aof2.Aof.open(
    path, tiers=tiers, segment_bytes=1 << 16, preallocate_segments=0, recover=True
) as log:
    n = log.watermarks().appended
    print("opened", n, log.watermarks().archived, flush=True)
    for _ in range(100_000):
        log.append_many([b"record %08d " % (n + i) * 20 for i in range(50)])
        n += 50
        log.flush()
        marks = log.watermarks()
        print("reached", marks.durable, marks.archived, flush=True)
"""


def payload(n: int) -> bytes:
    return b"record %08d " % n * 20


@pytest.mark.usefixtures("credentials")
def test_what_was_reported_survives_kills_and_lost_disks(bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "events"
    dice = random.Random(7)
    durable = archived = 0
    losses = 0
    for round_ in range(ROUNDS):
        # Killed after a number of batches, and in some rounds not before something was archived.
        batches, must_grow = dice.randrange(1, 60), round_ == 0 or dice.random() < 0.3
        before = archived
        victim = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), bucket], stdout=subprocess.PIPE, text=True
        )
        assert victim.stdout is not None
        try:
            word, opened, known = victim.stdout.readline().split()
            assert word == "opened"
            assert int(opened) >= durable, "a durable record is gone"
            assert int(known) >= archived or losses, "what was archived is not known any more"
            while batches > 0 or (must_grow and archived == before):
                batches -= 1
                _, reached, stored = victim.stdout.readline().split()
                durable, archived = int(reached), max(archived, int(stored))
        finally:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()
        if dice.random() < 0.3:
            shutil.rmtree(path)
            durable = archived
            losses += 1
    assert archived > 0
    tiers = aof2.Tiers(cold=f"s3://{bucket}/logs", retry_ms=20)
    with aof2.Aof.open(path, tiers=tiers, segment_bytes=1 << 16, recover=True) as log:
        end = log.watermarks().durable
        assert end >= durable
        log.seal()
        assert log.wait("archived", end, timeout=120)
    shutil.rmtree(path)
    with aof2.Aof.open(path, tiers=tiers, recover=True) as log:
        count = 0
        for record in log.scan():
            assert (record.offset, bytes(record)) == (count, payload(count))
            count += 1
        assert count == end
