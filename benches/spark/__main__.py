"""`make bench-spark`: the connector against Parquet, one table.

The same rows lie in a log and in Parquet files. Each query is timed for every way to run
it, round after round; medians count.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import report
from dataset import write_log
from measure import measure
from ways import QUERIES, WAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

ROWS, ROUNDS = 4_000_000, 5
QUICK_ROWS, QUICK_ROUNDS = 200_000, 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--rows", type=int, help=f"records ({ROWS}, quick: {QUICK_ROWS})")
    parser.add_argument("--rounds", type=int, help=f"rounds ({ROUNDS}, quick: {QUICK_ROUNDS})")
    parser.add_argument("--payload-bytes", type=int, default=1024, help="per record (1024)")
    parser.add_argument("--ways", help="comma-separated names; see --list")
    parser.add_argument("--queries", help="comma-separated names; see --list")
    parser.add_argument("--list", action="store_true", help="list ways and queries and stop")
    parser.add_argument("--dir", type=Path, help="where to write (default: the temporary one)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()

    if options.list:
        print("\n".join(f"{way.name:20}{way.title}" for way in WAYS))
        print("\n".join(["", *(f"{name:20}{title}" for name, title in QUERIES.items())]))
        return 0
    titles = {way.name: way.title for way in WAYS}
    names = _chosen(parser, "ways", options.ways, titles)
    ways = [way for way in WAYS if way.name in names]
    queries = _chosen(parser, "queries", options.queries, QUERIES)
    row_count = options.rows or (QUICK_ROWS if options.quick else ROWS)
    round_count = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="aof2-bench-", dir=options.dir) as scratch:
        dataset = write_log(Path(scratch), row_count, options.payload_bytes)
        measured = measure(dataset, ways, queries, round_count)
    if options.json:
        print(json.dumps(report.as_dict(measured), indent=1))
    else:
        print(report.markdown(measured) if options.markdown else report.text(measured))
    return 0


def _chosen(
    parser: argparse.ArgumentParser, what: str, given: str | None, known: Mapping[str, str]
) -> list[str]:
    names = given.split(",") if given else list(known)
    if unknown := set(names) - set(known):
        parser.error(f"unknown {what}: {', '.join(sorted(unknown))}")
    return [name for name in known if name in names]


if __name__ == "__main__":
    sys.exit(main())
