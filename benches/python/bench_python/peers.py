"""lmdb and sqlite3, each the fastest way that keeps the order of records."""

import sqlite3
from pathlib import Path
from time import perf_counter

import lmdb

from bench_python.ours import expect
from bench_python.work import Work

ABOUT = {
    "lmdb": (
        "8-byte keys in order, append=True, one write transaction, no sync "
        "(durable: one synced transaction per record); no checksums; "
        "scans through buffers without a copy"
    ),
    "sqlite3": (
        "a table with an integer key, journal_mode=WAL, synchronous=OFF, one transaction "
        "(durable: synchronous=FULL and one transaction per record); no checksums"
    ),
}


def _lmdb(root: Path, work: Work, *, sync: bool = False) -> lmdb.Environment:
    # A page of 4 KiB holds at worst one record and its key.
    size = (work.record_count * (work.payload_len + 4096)) + (64 << 20)
    return lmdb.open(str(root), map_size=size, sync=sync, metasync=sync, writemap=not sync)


def _keys(work: Work) -> list[bytes]:
    return [number.to_bytes(8, "big") for number in range(work.record_count)]


def lmdb_append(root: Path, work: Work) -> float:
    payload, keys = work.payload(), _keys(work)
    with _lmdb(root, work) as env:
        start = perf_counter()
        with env.begin(write=True) as transaction:
            put = transaction.put
            for key in keys:
                put(key, payload, append=True)
        return perf_counter() - start


def lmdb_append_many(root: Path, work: Work) -> float:
    payload = work.payload()
    items = [(key, payload) for key in _keys(work)]
    with _lmdb(root, work) as env:
        start = perf_counter()
        with env.begin(write=True) as transaction:
            transaction.cursor().putmulti(items, append=True)
        return perf_counter() - start


def lmdb_append_durable(root: Path, work: Work) -> float:
    payload = work.payload()
    with _lmdb(root, work, sync=True) as env:
        start = perf_counter()
        for key in _keys(work):
            with env.begin(write=True) as transaction:
                transaction.put(key, payload, append=True)
        return perf_counter() - start


def lmdb_fill(root: Path, work: Work) -> None:
    lmdb_append_many(root, work)


def lmdb_scan(root: Path, work: Work) -> float:
    with _lmdb(root, work) as env, env.begin(buffers=True) as transaction:
        total = 0
        start = perf_counter()
        for value in transaction.cursor().iternext(keys=False, values=True):
            total += len(value)
        seconds = perf_counter() - start
    expect(total, work.payload_bytes)
    return seconds


def _sqlite(root: Path, *, synchronous: str = "OFF") -> sqlite3.Connection:
    root.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(root / "records.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY, payload BLOB)"
    )
    return connection


INSERT = "INSERT INTO records (payload) VALUES (?)"


def sqlite_append(root: Path, work: Work) -> float:
    row = (work.payload(),)
    connection = _sqlite(root)
    try:
        start = perf_counter()
        connection.execute("BEGIN")
        for _ in range(work.record_count):
            connection.execute(INSERT, row)
        connection.execute("COMMIT")
        return perf_counter() - start
    finally:
        connection.close()


def sqlite_append_many(root: Path, work: Work) -> float:
    rows = [(work.payload(),)] * work.record_count
    connection = _sqlite(root)
    try:
        start = perf_counter()
        connection.execute("BEGIN")
        connection.executemany(INSERT, rows)
        connection.execute("COMMIT")
        return perf_counter() - start
    finally:
        connection.close()


def sqlite_append_durable(root: Path, work: Work) -> float:
    row = (work.payload(),)
    connection = _sqlite(root, synchronous="FULL")
    try:
        start = perf_counter()
        for _ in range(work.record_count):
            connection.execute(INSERT, row)
        return perf_counter() - start
    finally:
        connection.close()


def sqlite_fill(root: Path, work: Work) -> None:
    sqlite_append_many(root, work)


def sqlite_scan(root: Path, work: Work) -> float:
    connection = _sqlite(root)
    try:
        total = 0
        start = perf_counter()
        for (payload,) in connection.execute("SELECT payload FROM records ORDER BY number"):
            total += len(payload)
        seconds = perf_counter() - start
    finally:
        connection.close()
    expect(total, work.payload_bytes)
    return seconds
