"""Damage a log on purpose, find out exactly what is wrong, and repair it.

Run it: python examples/verify_repair.py
"""

import tempfile
from pathlib import Path

import aof2

RECORDS = 1_000
VICTIM = 123
# Bytes of a record before its payload, in the format "full".
RECORD_HEADER_BYTES = 32


def flip_a_bit(file: Path, at: int) -> None:
    """Do to one byte of a file what a failing disk might do."""
    with file.open("r+b") as handle:
        handle.seek(at)
        byte = handle.read(1)[0]
        handle.seek(at)
        handle.write(bytes([byte ^ 0x01]))


def main() -> None:
    """Write, damage, look, repair, and read what is left."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "events"
        with aof2.Aof.open(path) as log:
            ids = log.append_many(f"event {i}".encode() for i in range(RECORDS))
            log.seal()
            segment = Path(log.segments()[0].path)
        print("healthy:", aof2.verify(path).is_healthy)

        flip_a_bit(segment, ids[VICTIM].segment_offset + RECORD_HEADER_BYTES)

        with aof2.open(path) as reader:
            try:
                list(reader.scan())
            except aof2.Corrupt as error:
                print("reading: damage in records", error.records)
            print("intact: ", sum(1 for _ in reader.scan(on_corruption="skip")))

        for problem in aof2.verify(path).problems:
            print("verify: ", problem.severity, problem.kind, problem.records)

        repaired = aof2.repair(path)
        print("lost:   ", [lost.records for lost in repaired.lost])
        print("healthy:", aof2.verify(path).is_healthy)
        print("the original is kept:", (path / "quarantine" / segment.name).exists())

        # Every other record has the id and the offset it always had.
        with aof2.open(path) as reader:
            print(bytes(reader.read(ids[VICTIM + 1])), bytes(reader.read_offset(RECORDS - 1)))


if __name__ == "__main__":
    main()
