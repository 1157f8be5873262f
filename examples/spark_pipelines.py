"""Jobs over whole logs: profile, verify, copy into larger segments, export to Parquet.

Without a session each of them starts a local one; here they share one. The same jobs are
commands: aof2 spark profile|verify|copy|export.

Run it: python examples/spark_pipelines.py   (needs Java 17 and pip install "aof2[spark]")
"""

import tempfile
from pathlib import Path

import aof2
from aof2.spark import pipelines
from aof2.spark.pipelines.sessions import running

FIRST_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def write_readings(path: Path) -> None:
    """Write a reading every ten seconds, for three hours, in small segments."""
    with aof2.Aof.open(path, segment_bytes=64 << 10) as log:
        for second in range(0, 3 * 3_600, 10):
            reading = b"%d:%s" % (second, b"." * (second // 100))
            log.append(reading, timestamp_ms=FIRST_MS + second * 1_000)


def main() -> None:
    """Look at a log, check it, and make two other things of it."""
    with tempfile.TemporaryDirectory() as scratch, running(None) as spark:
        log = Path(scratch) / "readings"
        write_readings(log)

        profile = pipelines.profile(log, spark=spark)
        for hour in profile.hours:
            print(f"{hour.record_count} readings, {hour.payload_len_mean:.0f} bytes each")

        report = pipelines.verify(log, spark=spark)
        print(f"healthy: {report.is_healthy}, {report.record_count} records")

        copied = pipelines.copy(log, f"{scratch}/copy", spark=spark, segment_bytes=1 << 20)
        print(f"{len(profile.segments)} segments became {copied.streams[0].segment_count}")

        exported = pipelines.export(
            log, f"{scratch}/readings.parquet", spark=spark, start=360, columns=["offset"]
        )
        print(f"exported {exported.record_count} offsets from {exported.streams[0].start} on")


if __name__ == "__main__":
    main()
