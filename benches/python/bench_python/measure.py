"""Rounds in turn, and medians.

The machine may be shared, so nothing is measured on its own: a round runs every
contestant once, and a ratio is taken within a round before the median is.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench_python.rows import Contestant, Row


@dataclass(frozen=True)
class Outcome:
    """The seconds of every contestant in every round."""

    row: Row
    seconds: dict[str, list[float]]

    def figure(self, name: str) -> float:
        """The median, in the unit of the row."""
        return self.row.figure(median(self.seconds[name]))

    def ratio(self, name: str) -> float:
        """How many times as fast as `name` ours is."""
        pairs = zip(self.seconds[name], self.seconds["ours"], strict=True)
        return median(other / ours for other, ours in pairs)

    def best_peer(self) -> str | None:
        peers = [name for name in self.seconds if name not in {"ours", "rust"}]
        return min(peers, key=lambda name: median(self.seconds[name]), default=None)

    def met(self) -> bool | None:
        """Whether the goal is met; `None` where there is none."""
        row, checks = self.row, []
        if row.ratio_min is not None:
            checks.append(self.ratio("rust") >= row.ratio_min)
        if row.micros_max is not None:
            micros = median(self.seconds["ours"]) * 1e6 / row.work.record_count
            checks.append(micros <= row.micros_max)
        return all(checks) if checks else None


def measure(row: Row, scratch: Path, round_count: int) -> Outcome:
    """Run a row: one round to warm up, then `round_count` that count."""
    filled = {name: scratch / f"{row.key}-{name}" for name in row.fills}
    for name, fill in row.fills.items():
        fill(filled[name], row.work)
    seconds: dict[str, list[float]] = {name: [] for name in row.contestants}
    for number in range(round_count + 1):
        for name, run in row.contestants.items():
            taken = _alone(scratch, filled.get("ours" if name == "rust" else name), row, run)
            if number > 0:
                seconds[name].append(taken)
        print(f"{row.key}: round {number} of {round_count}", file=sys.stderr)
    for root in filled.values():
        shutil.rmtree(root)
    return Outcome(row, seconds)


def _alone(scratch: Path, filled: Path | None, row: Row, run: Contestant) -> float:
    """Give a contestant its directory and an idle disk."""
    # Nobody pays for the dirty pages of another.
    os.sync()
    if filled is not None:
        return run(filled, row.work)
    root = scratch / "log"
    try:
        return run(root, row.work)
    finally:
        shutil.rmtree(root, ignore_errors=True)
