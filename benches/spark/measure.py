"""Rounds: every query in every way once per round, so that a busy minute hurts all alike."""

from __future__ import annotations

import os
import statistics
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from queries import expected
from session import Session
from ways import GOALS, PARTS, QUERIES, TCP, UNIX, Goal, Way

if TYPE_CHECKING:
    from dataset import Dataset


@dataclass
class Measured:
    dataset: Dataset
    #: Those that run one of the queries.
    ways: list[Way]
    queries: list[str]
    spark_version: str
    #: Seconds of each round, by part, way and query.
    seconds: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def median(self, part: str, way: str, query: str) -> float | None:
        rounds = self.seconds.get((part, way, query))
        return statistics.median(rounds) if rounds else None

    def ratio(self, part: str, goal: Goal) -> float | None:
        """The median of the ratios within a round."""
        ours, theirs = self.seconds.get((part, *goal.faster)), self.seconds.get((part, *goal.than))
        if not ours or not theirs:
            return None
        pairs = zip(ours, theirs, strict=True)
        return statistics.median(their / our for our, their in pairs)

    def goals(self, part: str) -> list[tuple[Goal, float | None]]:
        return [(goal, self.ratio(part, goal)) for goal in GOALS]


def measure(dataset: Dataset, ways: list[Way], queries: list[str], round_count: int) -> Measured:
    sessions = {sockets: Session(sockets, dataset) for sockets in (UNIX, TCP)}
    try:
        _say(f"copying {dataset.row_count:,} rows to Parquet")
        version = sessions[UNIX].ask(do="prepare")["spark"]
        os.sync()
        ways = [way for way in ways if set(way.queries) & set(queries)]
        measured = Measured(dataset, ways, queries, version)
        # The first round compiles code and fills caches; it does not count.
        for number in range(round_count + 1):
            _say(f"round {number} of {round_count}" if number else "warming up")
            for query in queries:
                for way in ways:
                    if query in way.queries:
                        answer = _run(sessions[way.session], dataset, way, query)
                        for part in PARTS if number else ():
                            key = (part, way.name, query)
                            measured.seconds.setdefault(key, []).append(answer[part])
        return measured
    finally:
        for session in sessions.values():
            session.close()


def _run(session: Session, dataset: Dataset, way: Way, query: str) -> Any:
    answer = session.ask(do="run", way=way.name, query=query)
    if answer["found"] != [expected(dataset, query)] * 2:
        raise SystemExit(
            f"{way.title} answers {answer['found']} to {QUERIES[query]}, "
            f"not {expected(dataset, query)}"
        )
    return answer


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
