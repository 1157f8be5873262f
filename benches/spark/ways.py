"""The ways to run each query, and the goals that compare them.

A way belongs to a session: the one with Unix sockets between the JVM and Python, or the
one with TCP. Parquet needs no Python, so it is measured in one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

UNIX, TCP = "unix", "tcp"


@dataclass(frozen=True)
class Way:
    name: str
    title: str
    session: str
    #: Names of the queries that it can run, as in `queries`.
    queries: tuple[str, ...]


_ALL = ("count", "sum", "sum_all", "offset_range", "time_range", "count_offsets")
_SOME = ("count", "sum", "offset_range", "time_range", "count_offsets")

WAYS = (
    Way("parquet", "Parquet, uncompressed", UNIX, _SOME),
    Way("parquet_zstd", "Parquet, zstd", UNIX, _SOME),
    Way("aof2_unix", 'format("aof2"), Unix sockets', UNIX, _ALL),
    Way("aof2_tcp", 'format("aof2"), TCP', TCP, _ALL),
    Way("tuples", "a source of Python tuples", UNIX, ("sum",)),
    Way("ready_made", "bound: a source of ready-made numbers", UNIX, ("count_offsets",)),
    Way("map_batches_unix", "map_batches, Unix sockets", UNIX, ("sum", "count_offsets")),
    Way("map_batches_tcp", "map_batches, TCP", TCP, ("sum", "count_offsets")),
)

QUERIES = {
    "count": "count(*)",
    "sum": "sum(length(payload))",
    "sum_all": "sum(length(payload)), all columns",
    "offset_range": "the sum over 1 % by offset",
    "time_range": "the sum over 1 % by time",
    "count_offsets": "count(offset)",
}


#: What is timed of a query. Goals are judged by the first; a frame that ran before is
#: planned already, which flatters whoever plans longest.
PARTS = {
    "whole": "from load to answer",
    "again": "the same frame once more",
}


@dataclass(frozen=True)
class Goal:
    title: str
    #: Which measurement is to be so many times faster than which.
    faster: tuple[str, str]
    than: tuple[str, str]
    times: float


GOALS = (
    Goal("sum, Unix sockets / Parquet", ("aof2_unix", "sum"), ("parquet", "sum"), 0.85),
    Goal("sum, map_batches / Parquet", ("map_batches_unix", "sum"), ("parquet", "sum"), 1.5),
    Goal("1 % by offset / all", ("aof2_unix", "offset_range"), ("aof2_unix", "sum"), 10.0),
    Goal("1 % by time / all", ("aof2_unix", "time_range"), ("aof2_unix", "sum"), 10.0),
    Goal(
        "count(offset) / Parquet",
        ("aof2_unix", "count_offsets"),
        ("parquet", "count_offsets"),
        1.0,
    ),
    Goal(
        "count(offset), map_batches / Parquet",
        ("map_batches_unix", "count_offsets"),
        ("parquet", "count_offsets"),
        1.0,
    ),
    Goal(
        "count(offset) / bound",
        ("aof2_unix", "count_offsets"),
        ("ready_made", "count_offsets"),
        0.9,
    ),
)
