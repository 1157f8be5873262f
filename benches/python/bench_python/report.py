"""The table as text, as Markdown and as JSON."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from bench_python import kafka, peers
from bench_python.measure import Outcome

ABOUT = {**peers.ABOUT, "confluent-kafka, mock broker": kafka.ABOUT}
HEAD = [
    "work", "unit", "rust", "ours", *ABOUT,
    "ours / rust", "ours / best peer", "goal", "met",
]  # fmt: skip
LEGEND = (
    "Medians of rounds in turn; ratios are medians of ratios within a round, "
    "above 1 where ours is faster."
)


def machine() -> dict[str, str]:
    """Say where it was measured."""
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def text(outcomes: Sequence[Outcome]) -> str:
    lines = [HEAD, *map(_line, outcomes)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    table = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    facts = "; ".join(f"{name}: {fact}" for name, fact in machine().items())
    return f"{facts}\n\n{table}\n\n{LEGEND}\n"


def markdown(outcomes: Sequence[Outcome]) -> str:
    lines = [HEAD, ["---"] * len(HEAD), *map(_line, outcomes)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    facts = "; ".join(f"{name}: {fact}" for name, fact in machine().items())
    peers = "\n".join(f"- {name}: {about}" for name, about in ABOUT.items())
    return f"Machine: {facts}.\n\n{table}\n\n{LEGEND}\n\nHow the peers were run:\n\n{peers}\n"


def as_json(outcomes: Sequence[Outcome]) -> str:
    rows = [
        {
            "row": outcome.row.key,
            "unit": outcome.row.unit,
            "record_count": outcome.row.work.record_count,
            "payload_len": outcome.row.work.payload_len,
            "seconds": outcome.seconds,
            "figures": {name: outcome.figure(name) for name in outcome.seconds},
            "ours_to_rust": outcome.ratio("rust"),
            "goal": outcome.row.goal(),
            "met": outcome.met(),
        }
        for outcome in outcomes
    ]
    return json.dumps({"machine": machine(), "rows": rows}, indent=2)


def _line(outcome: Outcome) -> list[str]:
    def figure(name: str) -> str:
        return _short(outcome.figure(name)) if name in outcome.seconds else "n/a"

    best = outcome.best_peer()
    met = outcome.met()
    return [
        outcome.row.title,
        outcome.row.unit,
        *(figure(name) for name in ("rust", "ours", *ABOUT)),
        f"{outcome.ratio('rust'):.2f}",
        f"{outcome.ratio(best):.2f}" if best else "n/a",
        outcome.row.goal(),
        "-" if met is None else ("yes" if met else "NO"),
    ]


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _cpu() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or sys.platform
