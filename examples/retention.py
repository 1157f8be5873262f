"""Keep the newest data only, and notice when a reader was too slow.

Run it: python examples/retention.py
"""

import tempfile
from pathlib import Path

import aof2


def main() -> None:
    """Fill small segments, drop old ones, and read what is left."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        aof2.Aof.open(Path(scratch) / "events", segment_bytes=64 << 10) as log,
    ):
        for _ in range(8):
            log.append_many(bytes(1_000) for _ in range(50))
            log.seal()  # normally a segment is sealed when it is full
        print("segments:", len(log.segments()), "earliest offset:", log.earliest_offset())

        # What is before an offset that every consumer has passed can go.
        report = log.apply_retention(before_offset=200)
        print(f"removed {len(report.segments)} segments with {report.record_count} records")
        print("earliest offset:", log.earliest_offset())

        # Or keep it out of the way instead of deleting it.
        report = log.apply_retention(max_bytes=120_000, action="archive")
        print(f"archived {len(report.segments)} segments")
        print("in archive/:", len(list((Path(log.path) / "archive").iterdir())), "files")

        try:
            log.read_offset(0)
        except aof2.Trimmed as error:
            print("offset 0 is gone, start at", error.earliest)

        # Offsets are not reused: what comes next continues the count.
        log.append(b"next")
        log.flush()
        print("next offset:", log.watermarks().durable)


if __name__ == "__main__":
    main()
