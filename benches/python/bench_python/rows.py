"""The rows of the table: what is done, by whom, and what is wanted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench_python import kafka, ours, peers, rust
from bench_python.work import Work

Contestant = Callable[[Path, Work], float]
Fill = Callable[[Path, Work], None]


@dataclass(frozen=True)
class Row:
    """One line of the table. A contestant gets a directory and gives seconds."""

    key: str
    title: str
    # "µs/record": less is better. "GB/s", "k records/s": more is.
    unit: str
    work: Work
    contestants: Mapping[str, Contestant]
    # Writes the data that is read, by contestant; "rust" reads what "ours" wrote.
    fills: Mapping[str, Fill] = field(default_factory=dict)
    # Smallest wanted ratio to Rust, largest wanted microseconds per record.
    ratio_min: float | None = None
    micros_max: float | None = None

    def figure(self, seconds: float) -> float:
        """Turn seconds into the unit of the row."""
        if self.unit == "µs/record":
            return seconds * 1e6 / self.work.record_count
        if self.unit == "GB/s":
            return self.work.payload_bytes / seconds / 1e9
        return self.work.record_count / seconds / 1e3

    def goal(self) -> str:
        wanted = []
        if self.ratio_min is not None:
            wanted.append(f"≥ {self.ratio_min} of Rust")
        if self.micros_max is not None:
            wanted.append(f"≤ {self.micros_max:g} µs")
        return ", ".join(wanted) or "-"


def rows(binary: Path, quick: bool) -> list[Row]:
    """List the rows; a quick run has the same rows with fewer records."""
    kib = Work(50_000 if quick else 400_000, 1024)
    small = Work(200_000 if quick else 1_000_000, 100)
    durable = Work(300 if quick else 2_000, 1024)

    def bound(what: str) -> Contestant:
        return rust.contestant(binary, what)

    per_call = {
        "rust": bound("append"),
        "ours": ours.append,
        "lmdb": peers.lmdb_append,
        "sqlite3": peers.sqlite_append,
        "confluent-kafka, mock broker": kafka.append,
    }
    scanners = {"lmdb": peers.lmdb_scan, "sqlite3": peers.sqlite_scan}
    fills = {"ours": ours.fill, "lmdb": peers.lmdb_fill, "sqlite3": peers.sqlite_fill}
    return [
        Row(
            "append-100", "append, one call each, 100 B", "µs/record", small, per_call, micros_max=1
        ),
        Row("append-1k", "append, one call each, 1 KiB", "µs/record", kib, per_call, micros_max=1),
        Row(
            "append-many",
            "append_many, 1 KiB",
            "GB/s",
            kib,
            {
                "rust": bound("append_batch"),
                "ours": ours.append_many,
                "lmdb": peers.lmdb_append_many,
                "sqlite3": peers.sqlite_append_many,
                "confluent-kafka, mock broker": kafka.append_many,
            },
            ratio_min=0.5,
        ),
        Row(
            "append-arrow",
            "append_arrow, 1 KiB",
            "GB/s",
            kib,
            {"rust": bound("append_batch"), "ours": ours.append_arrow},
            ratio_min=0.5,
        ),
        Row(
            "scan-arrow",
            "scan_arrow, 1 KiB",
            "GB/s",
            kib,
            {"rust": bound("scan"), "ours": ours.scan_arrow, **scanners},
            fills,
            ratio_min=0.5,
        ),
        Row(
            "scan",
            "scan, record by record, 1 KiB",
            "GB/s",
            kib,
            {"rust": bound("scan"), "ours": ours.scan, **scanners},
            fills,
        ),
        Row(
            "durable",
            "durable append, 1 caller, 1 KiB",
            "k records/s",
            durable,
            {
                "rust": bound("append_durable"),
                "ours": ours.append_durable,
                "lmdb": peers.lmdb_append_durable,
                "sqlite3": peers.sqlite_append_durable,
            },
        ),
    ]
