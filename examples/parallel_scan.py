"""Scan one log with several processes: a reader can be pickled.

Each worker gets the reader and a range of offsets. Unpickling opens the log again
by its path; no bytes of it travel between the processes.

Run it: python examples/parallel_scan.py
"""

import multiprocessing
import tempfile
from pathlib import Path

import aof2

RECORDS = 100_000
WORKERS = 4


def total(part: tuple[aof2.Reader, int, int]) -> int:
    """Add up the numbers of one range of records."""
    reader, start, end = part
    with reader:
        return sum(int(bytes(record)) for record in reader.scan(start, end))


def main() -> None:
    """Write numbers and add them up in parallel."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "numbers"
        with aof2.Aof.open(path) as log:
            log.append_many(b"%d" % i for i in range(RECORDS))

        reader = aof2.open(path)
        step = RECORDS // WORKERS
        parts = [(reader, start, start + step) for start in range(0, RECORDS, step)]
        # "spawn" starts clean processes. With "fork", open the log in the child instead.
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            sums = pool.map(total, parts)
        for (_, start, end), part_sum in zip(parts, sums, strict=True):
            print(f"records {start:>6} to {end:>6}: {part_sum}")
        print("together:", sum(sums), "expected:", RECORDS * (RECORDS - 1) // 2)


if __name__ == "__main__":
    main()
