"""One log per sensor, hundreds of them, on a handful of threads.

`AofManager` owns the background threads; each log it opens is independent.

Run it: python examples/many_streams.py
"""

import tempfile
from pathlib import Path

import aof2

STREAMS = 200


def main() -> None:
    """Write to many logs in turn, then read all of them."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        with aof2.AofManager(worker_threads=2, blocking_threads_max=8) as manager:
            logs = [
                # Small logs: 64 KiB to begin with, growing only with the write rate.
                manager.open(root / f"sensor-{n:03}", segment_bytes_min=64 << 10)
                for n in range(STREAMS)
            ]
            for reading in range(10):
                for n, log in enumerate(logs):
                    log.append(f"{n}: {reading}".encode())
            print("open streams:", manager.open_streams)
            print("streams with an identity of their own:", len({log.stream_id for log in logs}))
        # Leaving the block has flushed and closed every log.

        total = 0
        for path in sorted(root.iterdir()):
            with aof2.open(path) as reader:
                total += sum(1 for _ in reader.scan())
        print("records in all:", total)


if __name__ == "__main__":
    main()
