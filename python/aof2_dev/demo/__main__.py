"""`python -m aof2_dev.demo`: write, kill, recover, damage, repair, compress, fork, archive, lose, query."""

import argparse
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from aof2_dev.demo.screen import ClaimFailed, Screen

# Fewer would be over before the writer can be killed in the middle.
EVENTS_MIN = 10_000


def main() -> int:
    """Run the demo and say how it ended."""
    options = _options()
    screen = Screen()
    if importlib.util.find_spec("pyarrow") is None:
        screen.say("The demo needs pyarrow: pip install 'aof2[arrow]'")
        return 1
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="aof2-demo-") as scratch:
        root = options.keep or Path(scratch)
        root.mkdir(parents=True, exist_ok=True)
        log = root / "events"
        if log.exists():
            screen.say(f"{log} is there already; name another directory.")
            return 1
        screen.title(
            "aof2: an embedded append-only log", f"{options.events:,} events, log in {log}"
        )
        try:
            _run(screen, log, options.events, options.spark)
        except ClaimFailed as claim:
            screen.console.print(f"    [bold red]✗ this does not hold:[/] {claim}")
            return 1
    screen.done(
        f"All {options.events:,} events are there, exactly once and in order. "
        f"{perf_counter() - started:.0f} s."
    )
    if options.keep:
        screen.say(f"Kept in {options.keep}. Try: aof2 info {log}")
    return 0


def _run(screen: Screen, log: Path, event_count: int, with_spark: bool) -> None:
    from aof2_dev.demo import archive, forks, steps

    acknowledged = steps.write_and_kill(screen, log, event_count)
    steps.recover(screen, log, acknowledged, event_count)
    steps.check(screen, log, event_count)
    steps.scan(screen, log, event_count)
    steps.damage_and_repair(screen, log, event_count)
    steps.compress(screen, log, event_count)
    event_count = forks.fork_and_go_on(screen, log, event_count)
    with archive.object_store(screen, log.parent / "s3") as is_there:
        if is_there:
            archive.archive_and_lose(screen, log, event_count)
        if with_spark:
            _query(screen, log, event_count)


def _query(screen: Screen, log: Path, event_count: int) -> None:
    from aof2_dev.demo import steps

    if missing := _missing_for_spark():
        screen.say(f"[dim]Spark is left out: {missing}.[/]")
        return
    # Executors are Python processes too, and must be this Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Everything stays on this machine, whatever its name resolves to.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    steps.query_with_spark(screen, log, event_count)


def _missing_for_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed (pip install 'aof2[spark]')"
    if importlib.util.find_spec("aof2.spark") is None:
        return "this build of aof2 has no Spark connector"
    return None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m aof2_dev.demo", description=__doc__)
    parser.add_argument("--events", type=int, default=300_000, help="how many events (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the logs in this directory")
    parser.add_argument("--no-spark", dest="spark", action="store_false", help="leave out Spark")
    options = parser.parse_args()
    if options.events < EVENTS_MIN:
        parser.error(f"--events must be at least {EVENTS_MIN}")
    return options


if __name__ == "__main__":
    sys.exit(main())
