"""Running a function beside the data: one item per task, small results back.

Built from ``mapInArrow`` alone, as `map_batches` is, so it works on Spark Connect and no
payload crosses into the JVM. What a task found to be wrong with a log comes back as the
exception it was, not as the text of a failed job; a failure that another attempt may not
meet fails the task, and Spark tries again.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import aof2
from aof2.spark.connect import is_connect
from aof2.spark.errors import IncompleteRead
from aof2.spark.pickling import travelling
from aof2.spark.pipelines.progress import watching_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from aof2.spark.pipelines.progress import ProgressCallback

Item = TypeVar("Item")
Found = TypeVar("Found")

#: What another attempt, perhaps on another machine, may not meet.
_PASSING = (
    aof2.ForkedHandle,
    aof2.IoError,
    aof2.Locked,
    aof2.Poisoned,
    aof2.Timeout,
    aof2.WouldBlock,
    IncompleteRead,
)
_COLUMNS = "number bigint, outcome binary"


def run(
    spark: SparkSession,
    step: str,
    function: Callable[[Item], Found],
    items: Sequence[Item],
    progress: ProgressCallback | None = None,
) -> list[Found]:
    """Return ``function(item)`` of each item, in order. Both pickle by name."""
    count = len(items)
    if count == 0:
        return []
    rows = spark.range(0, count, 1, count).mapInArrow(_Task(function, items), _COLUMNS)
    with watching_tasks(spark, step, count, progress):
        outcomes = {row.number: pickle.loads(row.outcome) for row in rows.collect()}  # noqa: S301
    for number in range(count):
        if isinstance(outcomes[number], aof2.Error):
            raise outcomes[number]
    return [outcomes[number] for number in range(count)]


def where_the_log_is(
    spark: SparkSession | None, function: Callable[[Item], Found], item: Item
) -> Found:
    """Return ``function(item)``, computed by this process or, where it is elsewhere, a task.

    The paths of a Connect client may mean nothing on its own machine.
    """
    if spark is None or not is_connect(spark):
        return function(item)
    return run(spark, "", function, [item])[0]


class _Task:
    """Computes the outcomes of the items whose numbers come in."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self._function = function
        self._items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(_Task, self._function, self._items)

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for chunk in numbers:
            for number in chunk.column(0).to_pylist():
                outcome = pickle.dumps(self._outcome(self._items[number]))
                yield pa.record_batch(
                    {
                        "number": pa.array([number], pa.int64()),
                        "outcome": pa.array([outcome], pa.binary()),
                    }
                )

    def _outcome(self, item: Any) -> Any:
        try:
            return self._function(item)
        except _PASSING:
            raise
        except aof2.Error as error:
            return error
