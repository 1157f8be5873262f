"""What was the state then? A snapshot names a place, and retention leaves it alone.

Run it: python examples/time_travel.py
"""

import datetime
import tempfile
from pathlib import Path

import aof2


def balances(log: aof2.ReadableLog, end: int | None = None) -> dict[str, int]:
    """Add up all entries before an offset."""
    sums: dict[str, int] = {}
    for record in log.scan(end=end):
        account, amount = bytes(record).decode().split()
        sums[account] = sums.get(account, 0) + int(amount)
    return sums


def main() -> None:
    """Keep a ledger, name a place in it, and go back to it."""
    with tempfile.TemporaryDirectory() as directory:
        root = aof2.Root(directory)
        with aof2.Aof.open(Path(directory, "ledger")) as ledger:
            ledger.append_many([b"alice 100", b"bob 50", b"alice -30"])
            taken = ledger.snapshot("end of May", expires=datetime.timedelta(days=365))
            print(f"snapshot {taken.name!r} at offset {taken.offset}")

            ledger.append_many([b"bob 25", b"alice -70"])
            ledger.seal()
            ledger.append(b"bob 1")
            ledger.flush()
            print("now: ", balances(ledger))
            print("then:", balances(ledger, end=taken.offset))

            # The first segment could go by this limit, if the snapshot did not need it.
            report = ledger.apply_retention(before_offset=5)
            assert report.kept is not None
            print(f"retention removed {len(report.segments)} segments: {report.kept.reason}")

            # What if bob had paid? A log of its own, from the snapshot on.
            fork = root.fork(ledger, "what if", at="end of May")
            with aof2.Aof.open(fork.path) as other:
                other.append(b"bob -50")
                other.flush()
                print("else:", balances(other))

            root.drop("what if")
            root.drop_snapshot(ledger, "end of May")
            print("without it:", len(ledger.apply_retention(before_offset=5).segments), "removed")


if __name__ == "__main__":
    main()
