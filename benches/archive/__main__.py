"""`make bench-archive`: the cold tier against s5cmd on the same server, and what it costs appends.

A log of incompressible records is compressed; its files are uploaded by the log and by
s5cmd, and downloaded again by both, in turns. Then single appends are timed with and
without a backlog that is compressed and uploaded meanwhile. Medians of the rounds count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, perf_counter_ns

import aof2
from aof2_dev.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server

SEGMENT_BYTES = 16 << 20
RECORD_BYTES = 64 << 10
PATIENCE_SECONDS = 600
SMALL_RECORD = b"x" * 1024


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-archive", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds")
    parser.add_argument("--megabytes", type=int, help="to upload (256, quick: 64)")
    parser.add_argument("--rounds", type=int, help="rounds (5, quick: 3)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    megabytes = options.megabytes or (64 if options.quick else 256)
    rounds = options.rounds or (3 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="aof2-bench-") as scratch:
        found = measure(Path(scratch), megabytes << 20, rounds)
    if options.json:
        print(json.dumps(found))
    else:
        show(found, "| {} |", " | ") if options.markdown else show(found, "{}", "  ")
    return 0


def measure(scratch: Path, byte_count: int, rounds: int) -> dict[str, float]:
    """Figures by name: MB/s, microseconds, and ratios of the same round."""
    with S3Server(scratch / "s3") as server:
        os.environ.update(server.env())
        server.create_bucket("bench")
        source = make_log(scratch / "source", byte_count)
        size = sum(file.stat().st_size for file in (source / "warm").iterdir())
        seconds: dict[str, list[float]] = {}
        for n in range(rounds):
            for name, run in (
                ("upload", lambda n=n: upload(source, scratch, n)),
                ("upload s5cmd", lambda n=n: upload_s5cmd(server, source, n)),
                ("download", lambda n=n: download(scratch, n)),
                ("download s5cmd", lambda n=n: download_s5cmd(server, scratch, n)),
                (
                    "download s5cmd and sync",
                    lambda n=n: download_s5cmd(server, scratch, n, is_synced=True),
                ),
            ):
                seconds.setdefault(name, []).append(run())
            print(f"round {n + 1} of {rounds}", file=sys.stderr)
        found = {
            f"{name}, MB/s": size / 1e6 / statistics.median(all_) for name, all_ in seconds.items()
        }
        for name, other in (
            ("upload", "s5cmd"),
            ("download", "s5cmd"),
            ("download", "s5cmd and sync"),
        ):
            pairs = zip(seconds[name], seconds[f"{name} {other}"], strict=True)
            found[f"{name} / {other}"] = statistics.median(s5 / ours for ours, s5 in pairs)
        found |= append_latency(scratch, rounds)
    return found


def make_log(path: Path, byte_count: int) -> Path:
    """A log whose segments are compressed and nothing else."""
    with aof2.Aof.open(
        path, tiers=aof2.Tiers(hot_bytes=1 << 40), segment_bytes=SEGMENT_BYTES
    ) as log:
        for _ in range(byte_count // RECORD_BYTES):
            log.append(os.urandom(RECORD_BYTES - 64))
        log.seal()
        for segment in log.segments():
            if segment.is_sealed:
                log.evict(segment.segment_id)
    return path


def upload(source: Path, scratch: Path, n: int) -> float:
    """From opening the log with a cold tier until all of it is archived."""
    copy = scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    tiers = aof2.Tiers(hot_bytes=1 << 40, cold=f"s3://bench/round-{n}", uploads_max=4)
    started = perf_counter()
    with aof2.Aof.open(copy, tiers=tiers) as log:
        end = log.watermarks().durable
        assert log.wait("archived", end, timeout=PATIENCE_SECONDS), log.tiers()
        return perf_counter() - started


def download(scratch: Path, n: int) -> float:
    """Every file back, each verified and synced."""
    target = scratch / "back"
    shutil.rmtree(target, ignore_errors=True)
    started = perf_counter()
    aof2.restore(f"s3://bench/round-{n}/source", target)
    return perf_counter() - started


def s5cmd(server: S3Server, *arguments: str) -> float:
    program = Path(sys.executable).parent / "s5cmd"
    env = os.environ | {
        "S3_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
    }
    started = perf_counter()
    subprocess.run([str(program), *arguments], env=env, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started


def upload_s5cmd(server: S3Server, source: Path, n: int) -> float:
    return s5cmd(server, "cp", f"{source / 'warm'}/*.zst", f"s3://bench/s5cmd-{n}/")


def download_s5cmd(server: S3Server, scratch: Path, n: int, *, is_synced: bool = False) -> float:
    """The same files, unverified; in the page cache, or on the disk as ours are."""
    target = scratch / "s5cmd"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    took = s5cmd(server, "cp", f"s3://bench/s5cmd-{n}/*", f"{target}/")
    started = perf_counter()
    for file in target.iterdir() if is_synced else ():
        with file.open("rb") as opened:
            os.fdatasync(opened.fileno())
    took += perf_counter() - started
    os.sync()  # what is left to write must not be paid for by the next one
    return took


def append_latency(scratch: Path, rounds: int) -> dict[str, float]:
    """The 99th percentile of one append, idle and while a backlog is archived."""
    idle, busy = [], []
    for n in range(rounds):
        with aof2.Aof.open(scratch / f"idle-{n}") as log:
            idle.append(p99(log))
        path = make_backlog(scratch / f"busy-{n}")
        tiers = aof2.Tiers(hot_bytes=1 << 26, cold=f"s3://bench/busy-{n}")
        with aof2.Aof.open(path, tiers=tiers) as log:
            busy.append(p99(log))
        shutil.rmtree(path)
        shutil.rmtree(scratch / f"idle-{n}")
    ratios = [with_ / without for without, with_ in zip(idle, busy, strict=True)]
    return {
        "append p99 idle, us": statistics.median(idle),
        "append p99 archiving, us": statistics.median(busy),
        "append p99 archiving / idle": statistics.median(ratios),
    }


def make_backlog(path: Path) -> Path:
    with aof2.Aof.open(path, segment_bytes=SEGMENT_BYTES) as log:
        for _ in range(1024):
            log.append(os.urandom(RECORD_BYTES))
        log.seal()
    return path


def p99(log: aof2.Aof) -> float:
    """Microseconds; a few seconds of appends with pauses, as a service makes them."""
    times = []
    for _ in range(60):
        for _ in range(500):
            started = perf_counter_ns()
            log.append(SMALL_RECORD)
            times.append(perf_counter_ns() - started)
        log.flush()
    return statistics.quantiles(times, n=100)[98] / 1e3


GOALS = {
    "upload / s5cmd": ("at least", 1.0),
    "download / s5cmd": ("at least", 1.0),
    "append p99 archiving / idle": ("at most", 2.0),
}


def show(found: dict[str, float], row: str, gap: str) -> None:
    table = [("what", "found", "goal", "")]
    for name, value in found.items():
        word, limit = GOALS.get(name, ("", 0.0))
        is_met = value >= limit if word == "at least" else value <= limit
        goal = f"{word} {limit}" if word else ""
        table.append((name, f"{value:,.2f}", goal, ("met" if is_met else "MISSED") if word else ""))
    for at, cells in enumerate(table):
        print(row.format(gap.join(cells)))
        if at == 0 and gap == " | ":
            print(row.format(gap.join(["---", "---:", "---", "---"])))


if __name__ == "__main__":
    sys.exit(main())
