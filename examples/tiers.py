"""Keep a budget of segment files, compress the rest, and read all of it the same way.

Run it: python examples/tiers.py
"""

import tempfile
from pathlib import Path

import aof2


def event(number: int) -> bytes:
    """Make an event that compresses as such things do."""
    return b'{"event": %d, "user": %d, "action": "view"}' % (number, number * 31 % 977)


def where(log: aof2.Aof) -> str:
    """Name the tier of every sealed segment."""
    return " ".join(segment.residency for segment in log.segments() if segment.is_sealed)


def main() -> None:
    """Move segments by hand, then let a budget do it."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "events"
        with aof2.Aof.open(path, segment_bytes=64 << 10, tiers=aof2.Tiers()) as log:
            for first in range(0, 2_000, 500):
                log.append_many(event(n) for n in range(first, first + 500))
                log.seal()  # normally a segment is sealed when it is full
            print("as written:     ", where(log))

            for segment_id in (0, 1):
                log.evict(segment_id)  # compressed and verified, then its file goes
            print("two evicted:    ", where(log))
            first_segment = log.segments()[0]
            ratio = first_segment.used_bytes / (first_segment.warm_bytes or 1)
            print("at least five times smaller:", ratio >= 5)

            # Readers do not notice, in this process or any other.
            intact = all(bytes(record) == event(record.offset) for record in log.scan())
            print("all intact:", intact, "- offset 7:", bytes(log.read_offset(7)))

            log.hydrate(0)  # the same file again
            print("one hydrated:   ", where(log))
            log.pin(0)  # stays whatever the budget, also when the log is opened again
            print("pinned:", log.tiers().pinned_segments)
            log.unpin(0)

        # A budget does it by itself. This one has no room for any sealed segment, and a
        # strict writer waits until what is too much has left.
        tiers = aof2.Tiers(hot_bytes=1, admission="strict")
        with aof2.Aof.open(path, tiers=tiers) as log:
            log.append(event(2_000))
            log.seal()
            log.append(event(2_001))
            print("no budget:      ", where(log))
            log.flush()
            print("records:", sum(1 for _ in log.scan()))


if __name__ == "__main__":
    main()
