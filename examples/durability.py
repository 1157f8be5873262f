"""Acknowledge an order only when it is durable, and pay for few disk flushes.

Each thread appends an order and flushes up to it before it says "accepted".
Threads that wait at the same time share one flush, so the disk is asked far less
often than once per order.

Run it: python examples/durability.py
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aof2

ORDERS = 400


def main() -> None:
    """Accept orders from 16 threads, then show what the log promises about them."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        aof2.Aof.open(Path(scratch) / "orders") as log,
    ):

        def accept(number: int) -> aof2.RecordId:
            rid = log.append(f"order {number}".encode())  # survives the death of this process
            log.flush(rid)  # survives a power cut
            return rid

        with ThreadPoolExecutor(16) as pool:
            accepted = list(pool.map(accept, range(ORDERS)))

        marks = log.watermarks()
        print(f"accepted {len(accepted)} orders; durable {marks.durable} of {marks.appended}")

        # Readers see durable records only, so nobody acts on an order that may vanish.
        by_id = {record.id: bytes(record) for record in log.scan()}
        complete = all(by_id[rid] == b"order %d" % n for n, rid in enumerate(accepted))
        print("every accepted order is there:", complete)

        # Not flushed yet: visible to those who ask for it.
        late = log.append(b"a late order")
        print("appended:", bytes(log.read(late, visibility="appended")))

        # Nobody has to flush: the background does, a few milliseconds later.
        print("durable by itself:", log.wait("durable", ORDERS + 1, timeout=60.0))


if __name__ == "__main__":
    main()
