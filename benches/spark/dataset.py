"""The rows: written to a log here, and copied to Parquet by the first session."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import aof2
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pathlib import Path

#: One record per millisecond from here on.
FIRST_MS = 1_700_000_000_000
#: Rows of one append.
_CHUNK_ROWS = 16 << 10


@dataclass(frozen=True)
class Dataset:
    log: str
    parquet: str
    parquet_zstd: str
    row_count: int
    payload_bytes: int

    @property
    def one_percent(self) -> tuple[int, int]:
        """Offsets in the middle of the log."""
        start = self.row_count // 2
        return start, start + max(self.row_count // 100, 1)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_log(scratch: Path, row_count: int, payload_bytes: int) -> Dataset:
    """Payloads are half text-like and half random, so that compression has something to do."""
    log = scratch / "events"
    random = np.random.default_rng(7)
    with aof2.Aof.open(log) as writer:
        for first in range(0, row_count, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, row_count - first)
            writer.append_arrow(
                _chunk(random, first, count, payload_bytes),
                column="payload",
                timestamp_column="timestamp",
            )
        writer.seal()
    return Dataset(
        str(log), str(scratch / "parquet"), str(scratch / "parquet-zstd"), row_count, payload_bytes
    )


def _chunk(
    random: np.random.Generator, first: int, count: int, payload_bytes: int
) -> pa.RecordBatch:
    values = random.integers(0, 256, (count, payload_bytes), dtype=np.uint8)
    values[:, : payload_bytes // 2] = ord("a") + (values[:, : payload_bytes // 2] & 7)
    offsets = np.arange(count + 1, dtype=np.int32) * payload_bytes
    payloads = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values)]
    )
    moments = pa.array(np.arange(first, first + count) + FIRST_MS, pa.timestamp("ms", tz="UTC"))
    return pa.record_batch({"payload": payloads, "timestamp": moments})
