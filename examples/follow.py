"""Follow a log like `tail -f`, and continue after a restart where you stopped.

The consumer keeps the offset of the next record it wants. That is all the state
it needs: offsets have no gaps and are never reused.

Run it: python examples/follow.py
"""

import tempfile
import threading
from pathlib import Path

import aof2


def consume(path: Path, state: Path, count: int) -> None:
    """Handle `count` records, starting where the last run stopped."""
    start = int(state.read_text()) if state.exists() else 0
    with aof2.open(path) as reader:
        for record in reader.follow(start, timeout=60.0):
            print(f"  {record.offset}: {bytes(record).decode()}")
            state.write_text(str(record.offset + 1))
            if record.offset + 1 == start + count:
                return


def main() -> None:
    """Let a writer and two runs of a consumer work at the same time."""
    with tempfile.TemporaryDirectory() as scratch:
        path, state = Path(scratch) / "events", Path(scratch) / "consumer-offset"
        with aof2.Aof.open(path) as log:

            def produce() -> None:
                for i in range(6):
                    log.append(f"event {i}".encode())

            writer = threading.Thread(target=produce)
            writer.start()
            print("first run of the consumer:")
            consume(path, state, 4)
            print("second run:")
            consume(path, state, 2)
            writer.join()

        # The writer has closed the log. Following goes on with the next one, unless told so.
        with aof2.open(path) as reader:
            print("records in all:", sum(1 for _ in reader.follow("earliest", until_closed=True)))


if __name__ == "__main__":
    main()
