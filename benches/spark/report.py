"""The table, as text, Markdown or JSON."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from ways import PARTS, QUERIES

if TYPE_CHECKING:
    from measure import Measured


def _cells(measured: Measured, part: str) -> list[list[str]]:
    queries = measured.queries
    table = [[f"seconds (MB/s), {PARTS[part]}", *(QUERIES[query] for query in queries)]]
    for way in measured.ways:
        table.append([way.title, *(_cell(measured, part, way.name, query) for query in queries)])
    return table


def _cell(measured: Measured, part: str, way: str, query: str) -> str:
    seconds = measured.median(part, way, query)
    if seconds is None:
        return "-"
    if query not in ("sum", "sum_all"):
        return f"{seconds:.3f}"
    dataset = measured.dataset
    rate = dataset.row_count * dataset.payload_bytes / seconds / 1e6
    return f"{seconds:.3f} ({rate:,.0f})"


def _goals(measured: Measured) -> list[list[str]]:
    table = [["goal", "at least", "found", "", PARTS["again"]]]
    again = [ratio for _, ratio in measured.goals("again")]
    for (goal, ratio), second in zip(measured.goals("whole"), again, strict=True):
        met = "" if ratio is None else "met" if ratio >= goal.times else "MISSED"
        table.append([goal.title, f"{goal.times:g} x", _times(ratio), met, _times(second)])
    return table


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f} x"


def _tables(measured: Measured) -> list[list[list[str]]]:
    return [*(_cells(measured, part) for part in PARTS), _goals(measured)]


def _heading(measured: Measured) -> str:
    dataset = measured.dataset
    rounds = max((len(times) for times in measured.seconds.values()), default=0)
    return (
        f"{dataset.row_count:,} records of {dataset.payload_bytes} bytes, medians of {rounds} "
        f"rounds, PySpark {measured.spark_version}, Python {platform.python_version()}, "
        f"{os.cpu_count()} processors"
    )


def text(measured: Measured) -> str:
    parts = [_heading(measured)]
    for table in _tables(measured):
        widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def markdown(measured: Measured) -> str:
    parts = [_heading(measured)]
    for header, *rows in _tables(measured):
        lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join(parts)


def as_dict(measured: Measured) -> dict[str, Any]:
    dataset = measured.dataset
    return {
        "rows": dataset.row_count,
        "payload_bytes": dataset.payload_bytes,
        "pyspark": measured.spark_version,
        "processors": os.cpu_count(),
        "seconds": [
            {"part": part, "way": way, "query": query, "rounds": times}
            for (part, way, query), times in measured.seconds.items()
        ],
        "goals": [
            {"part": part, "goal": goal.title, "at_least": goal.times, "found": ratio}
            for part in PARTS
            for goal, ratio in measured.goals(part)
        ],
    }
