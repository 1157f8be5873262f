"""Write, make durable, read back: the whole of aof2 in one screen.

Run it: python examples/quickstart.py
"""

import tempfile
from pathlib import Path

import aof2


def main() -> None:
    """Append three records and read them in every way there is."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "events"

        with aof2.Aof.open(path) as log:
            ids = [log.append(word) for word in (b"one", b"two", b"three")]
            log.flush()  # all three survive a power cut from here on

            print("by id:    ", bytes(log.read(ids[1])))
            print("by offset:", bytes(log.read_offset(2)))
            print("in order: ", [bytes(record) for record in log.scan()])
            print("watermarks:", log.watermarks().appended, log.watermarks().durable)

        # A log is a directory; opening it again continues where it ended.
        with aof2.Aof.open(path) as log:
            log.append(b"four")
            log.flush()
            for record in log.scan(start=2):
                print(record.offset, record.id, bytes(record.payload))


if __name__ == "__main__":
    main()
