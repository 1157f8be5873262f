"""The table, as text, Markdown or JSON."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from ways import QUERIES

if TYPE_CHECKING:
    from measure import Measured


def _cells(measured: Measured) -> list[list[str]]:
    table = [["seconds (MB/s)", *QUERIES.values()]]
    for way in measured.ways:
        table.append([way.title, *(_cell(measured, way.name, query) for query in QUERIES)])
    return table


def _cell(measured: Measured, way: str, query: str) -> str:
    seconds = measured.median(way, query)
    if seconds is None:
        return "-"
    if query not in ("sum", "sum_all"):
        return f"{seconds:.3f}"
    dataset = measured.dataset
    rate = dataset.row_count * dataset.payload_bytes / seconds / 1e6
    return f"{seconds:.3f} ({rate:,.0f})"


def _goals(measured: Measured) -> list[list[str]]:
    table = [["goal", "at least", "found", ""]]
    for goal, ratio in measured.goals():
        found = "-" if ratio is None else f"{ratio:.2f} x"
        met = "" if ratio is None else "met" if ratio >= goal.times else "MISSED"
        table.append([goal.title, f"{goal.times:g} x", found, met])
    return table


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
    for table in (_cells(measured), _goals(measured)):
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
    for header, *rows in (_cells(measured), _goals(measured)):
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
            {"way": way, "query": query, "rounds": times}
            for (way, query), times in measured.seconds.items()
        ],
        "goals": [
            {"goal": goal.title, "at_least": goal.times, "found": ratio}
            for goal, ratio in measured.goals()
        ],
    }
