"""`make bench-python`: measure, print one table."""

import argparse
import sys
import tempfile
from pathlib import Path

from bench_python import report
from bench_python.measure import measure
from bench_python.rows import rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench_python", description=__doc__)
    parser.add_argument("--rust-binary", type=Path, required=True, help="the example python_bound")
    parser.add_argument("--quick", action="store_true", help="fewer records and rounds")
    parser.add_argument("--rounds", type=int, help="rounds that count (5, quick: 3)")
    parser.add_argument("--rows", help="comma-separated keys; see --list")
    parser.add_argument("--list", action="store_true", help="list the rows and stop")
    parser.add_argument(
        "--dir", type=Path, help="where to write (default: the temporary directory)"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON")
    shape.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()

    wanted = rows(options.rust_binary.resolve(), options.quick)
    if options.rows:
        keys = options.rows.split(",")
        if unknown := set(keys) - {row.key for row in wanted}:
            parser.error(f"unknown rows: {', '.join(sorted(unknown))}")
        wanted = [row for row in wanted if row.key in keys]
    if options.list:
        print("\n".join(f"{row.key:14}{row.title}" for row in wanted))
        return 0
    round_count = options.rounds or (3 if options.quick else 5)
    with tempfile.TemporaryDirectory(prefix="aof2-bench-", dir=options.dir) as scratch:
        outcomes = [measure(row, Path(scratch), round_count) for row in wanted]
    if options.json:
        print(report.as_json(outcomes))
    else:
        print(report.markdown(outcomes) if options.markdown else report.text(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
