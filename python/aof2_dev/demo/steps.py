"""What happens in the demo, one function per step."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import aof2
import pyarrow as pa
import pyarrow.compute as pc

from aof2_dev.demo.events import event
from aof2_dev.demo.screen import Screen, megabytes

# Events per acknowledgement.
BATCH = 1_000
# The writer is killed when it has acknowledged this share of the events.
KILL_AT_PERCENT = 60
# Bytes of a record before its payload, in the format "full".
RECORD_HEADER_BYTES = 32
# Spark tells of errors only. Without an appender it would use its own settings.
QUIET_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


def write_and_kill(screen: Screen, path: Path, event_count: int) -> int:
    """Start a writer, watch it, kill it; give the number of acknowledged events."""
    screen.step("A writer process appends events, and is killed in the middle")
    screen.say(f"It appends one by one and acknowledges {BATCH:,} at a time, after their flush.")
    command = [
        sys.executable,
        "-m",
        "aof2_dev.demo.writer",
        str(path),
        str(event_count),
        str(BATCH),
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as writer:  # noqa: S603
        acknowledged, shown_percent, kill_sent = 0, 0, False
        reader = None
        for line in writer.stdout or ():
            acknowledged = int(line)
            percent = 100 * acknowledged // event_count
            # What was acknowledged before the kill took effect counts as well, so the
            # pipe is read to its end.
            if not kill_sent and percent >= shown_percent + 10:
                shown_percent = percent
                reader = reader or aof2.open(path)
                marks = reader.watermarks()
                screen.marks(marks.appended, marks.durable, event_count)
            if not kill_sent and percent >= KILL_AT_PERCENT:
                writer.send_signal(signal.SIGKILL)
                kill_sent = True
        if reader is not None:
            reader.close()
    screen.say(f"[red]kill -9[/] of process {writer.pid}.")
    screen.claim(writer.returncode == -signal.SIGKILL, "the writer had no chance to tidy up")
    screen.say(f"It had acknowledged [bold]{acknowledged:,}[/] events as durable.")
    return acknowledged


def recover(screen: Screen, path: Path, acknowledged: int, event_count: int) -> None:
    """Open the log again, compare it with what was acknowledged, and finish the job."""
    screen.step("The next writer recovers the log")
    started = perf_counter()
    # Without the timer, only full buffers and the flush below move events to the disk.
    with aof2.Aof.open(path, flush_interval_ms=0) as log:
        seconds = perf_counter() - started
        found = log.watermarks().durable
        screen.say(f"Opened and recovered in {seconds * 1e3:.1f} ms.")
        screen.claim(
            found >= acknowledged,
            f"{found:,} events are there: {acknowledged:,} acknowledged, and "
            f"{found - acknowledged:,} that only the killed process knew of",
        )
        intact = all(bytes(record) == event(record.offset) for record in log.scan())
        screen.claim(intact, f"events 0 to {found - 1:,} are those that were written, in order")

        rest = [event(number) for number in range(found, event_count)]
        started = perf_counter()
        log.append_many(rest)
        seconds = perf_counter() - started
        screen.say(
            f"Appended the other {len(rest):,}: {seconds * 1e9 / max(len(rest), 1):,.0f} ns each."
        )
        before = log.watermarks()
        screen.marks(before.appended, before.durable, event_count)
        log.flush()
        after = log.watermarks()
        screen.marks(after.appended, after.durable, event_count)
        screen.claim(
            after.durable == event_count, f"after the flush all {event_count:,} are durable"
        )
        # Sealed segments carry a checksum over everything, which the next step checks.
        log.seal()


def check(screen: Screen, path: Path, event_count: int) -> None:
    """Verify every checksum, counter and name."""
    screen.step("Everything is verified")
    started = perf_counter()
    report = aof2.verify(path)
    seconds = perf_counter() - started
    screen.claim(
        report.is_healthy and report.record_count == event_count,
        f"{len(report.segments)} segments, {report.record_count:,} records, "
        f"no problem, in {seconds * 1e3:.0f} ms",
    )


def scan(screen: Screen, path: Path, event_count: int) -> None:
    """Read the log as Arrow columns and compute on them."""
    screen.step("A reader scans the log into Arrow columns")
    with aof2.open(path) as reader:
        started = perf_counter()
        table = pa.table(reader.scan_arrow(columns=["offset", "payload"]))
        seconds = perf_counter() - started
    bytes_read = pc.sum(pc.binary_length(table["payload"])).as_py()
    screen.claim(
        table.num_rows == event_count,
        f"{table.num_rows:,} rows, {megabytes(bytes_read)} in {seconds * 1e3:.0f} ms: "
        f"[bold]{event_count / seconds / 1e6:.1f} million events/s[/], every checksum verified",
    )
    text = table["payload"].cast(pa.string())
    action = pc.struct_field(pc.extract_regex(text, r'"action":"(?P<action>[a-z]+)"'), "action")
    counts = pa.table({"action": action}).group_by("action").aggregate([([], "count_all")])
    rows = counts.sort_by([("count_all", "descending")]).to_pylist()
    screen.bars((row["action"], row["count_all"]) for row in rows)


def damage_and_repair(screen: Screen, path: Path, event_count: int) -> None:
    """Flip one bit in a copy of the log, and have it found, named and repaired."""
    screen.step("One bit of a copy is flipped, found and repaired")
    copy = path.with_name(path.name + "-damaged")
    shutil.copytree(path, copy)
    victim = event_count // 3
    with aof2.open(copy) as reader:
        rid = reader.read_offset(victim).id
        segment = next(s for s in reader.segments() if s.segment_id == rid.segment_index)
    at = rid.segment_offset + RECORD_HEADER_BYTES + 10
    with Path(segment.path).open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x01]))
    screen.say(f"Flipped a bit of event {victim:,}: byte {at:,} of segment {rid.segment_index}.")

    with aof2.open(copy) as reader:
        try:
            reader.read_offset(victim)
            found = None
        except aof2.Corrupt as error:
            found = error
        screen.claim(
            found is not None, "reading it says that it is damaged, instead of giving wrong bytes"
        )
        intact = sum(1 for _ in reader.scan(on_corruption="skip"))
        screen.claim(intact == event_count - 1, f"the other {intact:,} are still readable")

    problems = [p for p in aof2.verify(copy).problems if p.severity == "damage"]
    screen.claim(bool(problems), "verify finds it:")
    for problem in problems:
        screen.say(
            f"  [yellow]{problem.kind}[/] at byte {problem.offset:,}, records {_range(problem.records)}"
        )

    repaired = aof2.repair(copy)
    lost = [(item.records[0], item.records[1]) for item in repaired.lost]
    screen.claim(
        lost == [(victim, victim + 1)],
        f"repair gives up [bold]event {victim:,} and nothing else[/]; the original is in quarantine/",
    )
    screen.claim(aof2.verify(copy).is_healthy, "the repaired copy is healthy")


def compress(screen: Screen, path: Path, event_count: int) -> None:
    """Move sealed segments to the warm tier, read them there, and bring one back."""
    screen.step("Sealed segments are compressed, and read as before")
    with aof2.Aof.open(path, tiers=aof2.Tiers()) as log:
        hot = [segment for segment in log.segments() if segment.is_sealed]
        before = sum(segment.used_bytes for segment in hot)
        started = perf_counter()
        for segment in hot:
            log.evict(segment.segment_id)
        seconds = perf_counter() - started
        after = log.tiers().warm_bytes
        screen.claim(
            not any(Path(segment.path).exists() for segment in hot),
            f"{len(hot)} segment files are gone: {megabytes(before)} became {megabytes(after)}, "
            f"[bold]{before / after:.1f} times smaller[/], in {seconds * 1e3:.0f} ms",
        )
        screen.bars([("hot, bytes", before), ("warm, bytes", after)])
        started = perf_counter()
        intact = all(bytes(record) == event(record.offset) for record in log.scan())
        seconds = perf_counter() - started
        screen.claim(
            intact and log.watermarks().durable == event_count,
            f"all {event_count:,} events are read back from them in {seconds * 1e3:.0f} ms",
        )
        back = log.hydrate(hot[0].segment_id)
        screen.claim(
            Path(hot[0].path).exists() and back == hot[0].used_bytes,
            f"segment {hot[0].segment_id} came back as a file; the rest stays compressed",
        )


def _range(records: tuple[int, int | None]) -> str:
    start, end = records
    return f"from {start:,} on" if end is None else f"{start:,} to {end - 1:,}"


def query_with_spark(screen: Screen, path: Path, event_count: int) -> None:
    """Count the events of each action with Spark, over the same files."""
    screen.step("Spark reads the same log")
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    quiet = path.parent / "log4j2.properties"
    quiet.write_text(QUIET_LOG4J)
    started = perf_counter()
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("aof2 demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet.as_uri()}")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    try:
        screen.say(f"Spark {spark.version} started in {perf_counter() - started:.1f} s.")
        started = perf_counter()
        log = spark.read.format("aof2").load(str(path))
        action = f.get_json_object(f.col("payload").cast("string"), "$.action")
        rows = log.groupBy(action.alias("action")).count().orderBy(f.desc("count")).collect()
        screen.say('spark.read.format("aof2").load(…).groupBy(action):')
        screen.bars((row["action"], row["count"]) for row in rows)
        screen.claim(
            sum(row["count"] for row in rows) == event_count,
            f"Spark counted all {event_count:,} events in {perf_counter() - started:.1f} s",
        )
    finally:
        spark.stop()
