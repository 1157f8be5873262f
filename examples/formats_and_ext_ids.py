"""Two formats, and an identifier of your own on every sealed segment.

The format "full" (the default) spends 32 bytes per record and can prove what was
durable from the records alone. The format "compact" spends 16. With "full" you can
also stamp segments with an `ext_id`: a snapshot number, a backup, a tenant.

Run it: python examples/formats_and_ext_ids.py
"""

import tempfile
from pathlib import Path

import aof2


def used_bytes(log: aof2.Aof) -> int:
    """Tell how much of its segment files a log uses."""
    return sum(segment.used_bytes for segment in log.segments())


def main() -> None:
    """Compare the formats, then stamp segments."""
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("full", "compact"):
            with aof2.Aof.open(Path(scratch) / name, format=name) as log:
                log.append_many(b"12345678" for _ in range(1_000))
                log.flush()
                print(f"{log.format:>7}: {used_bytes(log)} bytes for 1000 records of 8 bytes")

        with aof2.Aof.open(Path(scratch) / "stamped", ext_id=1) as log:
            for snapshot in (1, 2, 3):
                log.set_ext_id(snapshot)
                log.append(f"after snapshot {snapshot}".encode())
                log.seal()  # the footer carries the id

        with aof2.open(Path(scratch) / "stamped") as reader:
            for segment in reader.segments():
                if segment.is_sealed:
                    print("segment", segment.segment_id, "ext_id", segment.ext_id)


if __name__ == "__main__":
    main()
