"""Find records by time: a day of readings, and the one hour that matters.

Run it: python examples/time_ranges.py
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aof2

MIDNIGHT = datetime(2025, 6, 1, tzinfo=UTC)


def main() -> None:
    """Write one reading a minute with its own timestamp, then look at an hour."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        aof2.Aof.open(Path(scratch) / "readings") as log,
    ):
        for minute in range(24 * 60):
            taken = MIDNIGHT + timedelta(minutes=minute)
            log.append(b"%d" % (minute % 60), timestamp_ms=int(taken.timestamp() * 1000))
        log.flush()

        noon = MIDNIGHT + timedelta(hours=12)
        print("first reading from noon on has offset", log.offset_at(noon))

        hour = list(log.scan(start=noon, end=noon + timedelta(hours=1)))
        print(
            f"{len(hour)} readings between {hour[0].timestamp:%H:%M} and "
            f"{hour[-1].timestamp:%H:%M}, the highest {max(int(bytes(r)) for r in hour)}"
        )

        # Offsets and times mix freely.
        morning = log.scan(start=0, end=MIDNIGHT + timedelta(hours=6))
        print("readings before six:", sum(1 for _ in morning))

        try:
            log.offset_at(datetime(2025, 6, 1))
        except ValueError as error:
            print("without a time zone:", type(error).__name__)


if __name__ == "__main__":
    main()
