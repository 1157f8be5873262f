"""Computing beside the data: payloads never cross into the JVM, results do.

One row per split goes to Python, the function runs on Arrow batches there. Built from
``mapInArrow`` alone, which Spark Connect has as well; ``rdd`` it has not.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, TypeAlias

from aof2.spark.connect import is_connect
from aof2.spark.pickling import travelling
from aof2.spark.read.schema import native_columns
from aof2.spark.requirements import require_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from aof2._types import StrPath
    from aof2.spark.read.options import ReadOptions
    from aof2.spark.read.schema import Columns
    from aof2.spark.read.splits import Split

    Result: TypeAlias = pa.RecordBatch | pa.Table | Iterable[pa.RecordBatch]
    BatchFunction: TypeAlias = Callable[[pa.RecordBatch], Result]


def map_batches(
    spark: SparkSession,
    path: StrPath | Sequence[StrPath],
    fn: BatchFunction,
    *,
    schema: StructType | str | None = None,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> DataFrame:
    """Run `fn` on every Arrow batch of a log, beside the data; its results are the rows.

    `fn` takes a record batch with `columns` (by default all) and returns a batch, a
    table, or several. `schema` is what it returns, as DDL or a StructType; without it
    `fn` is asked once with an empty batch. The options are those of
    ``spark.read.format("aof2")``.

    Each batch gives its own rows, so aggregate once more over the DataFrame:

    >>> def lengths(batch):
    ...     total = pc.sum(pc.binary_length(batch["payload"])).as_py() or 0
    ...     return pa.record_batch({"bytes": [total]})
    >>> map_batches(spark, "data/events", lengths, columns=["payload"]).agg({"bytes": "sum"})
    """
    require_spark()
    from aof2.spark.read.options import read_options

    wanted = native_columns(columns)
    returned = _returned_schema(fn, wanted, schema)
    if is_connect(spark):
        # The path may mean something only where the cluster is.
        remote = read_options(path, options, local=False)
        splits = _plan_on_cluster(spark, remote, wanted)
    else:
        from aof2.spark.read.batch import plan_batch

        remote = read_options(path, options)
        splits = plan_batch(remote, wanted)
    count = len(splits)
    task = _Task(splits, remote, wanted, fn, returned)
    rows = spark.range(0, count, 1, max(count, 1))
    return rows.mapInArrow(task, returned)


def _plan_on_cluster(spark: SparkSession, options: ReadOptions, columns: Columns) -> list[Split]:
    planning = _Planning(options, columns)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(planning, "splits binary").collect()
    splits: list[Split] = pickle.loads(bytes(row.splits))  # noqa: S301 - made by `_Planning`
    return splits


class _Planning:
    """Plans in a task, where the path is to be seen."""

    def __init__(self, options: ReadOptions, columns: Columns) -> None:
        self._options = options
        self._columns = columns

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(_Planning, self._options, self._columns)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from aof2.spark.read.batch import plan_batch

        for batch in batches:
            for _ in range(batch.num_rows):
                splits = pickle.dumps(plan_batch(self._options, self._columns))
                yield pa.record_batch({"splits": pa.array([splits], pa.binary())})


class _Task:
    """Reads the splits whose numbers come in, and runs the function on their batches."""

    def __init__(
        self,
        splits: list[Split],
        options: ReadOptions,
        columns: Columns,
        fn: BatchFunction,
        returned: StructType,
    ) -> None:
        self._splits = splits
        self._options = options
        self._columns = columns
        self._fn = fn
        self._returned = returned

    def __reduce__(self) -> tuple[Any, ...]:
        # The function of a notebook is known only to Spark's own pickle.
        from pyspark import cloudpickle

        fn: bytes = cloudpickle.dumps(self._fn)  # type: ignore[no-untyped-call]
        return travelling(_arrived, self._splits, self._options, self._columns, fn, self._returned)

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from aof2.spark.read.split_reader import HowToRead, SplitReader

        expected = to_arrow_schema(self._returned, timezone="UTC")
        how = HowToRead.of(self._options)
        for chunk in numbers:
            for number in chunk.column(0).to_pylist():
                for batch in SplitReader(self._splits[number], self._columns, how):
                    for result in _result_batches(self._fn(batch)):
                        yield _fitted(result, expected)


def _arrived(
    splits: list[Split], options: ReadOptions, columns: Columns, fn: bytes, returned: StructType
) -> _Task:
    return _Task(splits, options, columns, pickle.loads(fn), returned)  # noqa: S301 - by __reduce__


def _result_batches(result: Result) -> Iterable[pa.RecordBatch]:
    import pyarrow as pa

    if isinstance(result, pa.RecordBatch):
        return (result,)
    if isinstance(result, pa.Table):
        return result.to_batches()  # type: ignore[no-any-return]
    return result


def _fitted(result: pa.RecordBatch, expected: pa.Schema) -> pa.RecordBatch:
    """Put the columns in the order and types of the schema: Spark is obscure about others."""
    import pyarrow as pa

    if not isinstance(result, pa.RecordBatch):
        raise TypeError(
            f"the function of map_batches returned {type(result).__name__}; "
            "return a pyarrow RecordBatch, a Table, or several batches"
        )
    if result.schema.equals(expected):
        return result
    arrays = []
    for field in expected:
        if field.name not in result.schema.names:
            raise ValueError(
                f"the function of map_batches returned columns {result.schema.names}, "
                f"but the schema names {field.name!r}"
            )
        arrays.append(_cast(result.column(field.name), field))
    return pa.RecordBatch.from_arrays(arrays, schema=expected)


def _cast(array: pa.Array, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    try:
        return array if array.type.equals(field.type) else array.cast(field.type)
    except pa.ArrowException as error:
        raise ValueError(
            f"column {field.name!r} of the function of map_batches is {array.type} and cannot "
            f"become {field.type}, as the schema says: {error}"
        ) from None


def _returned_schema(
    fn: BatchFunction, columns: Columns, schema: StructType | str | None
) -> StructType:
    from pyspark.sql.types import StructType

    if isinstance(schema, StructType):
        return schema
    if isinstance(schema, str):
        parsed = StructType.fromDDL(schema)
        # "bigint" alone is DDL for a type, not for columns.
        if not isinstance(parsed, StructType):
            raise ValueError(f"schema: {schema!r} names no column; write it like 'total bigint'")
        return parsed
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema

    try:
        empty = columns.arrow_schema().empty_table().to_batches()
        empty = empty or [pa.RecordBatch.from_pylist([], schema=columns.arrow_schema())]
        first = next(iter(_result_batches(fn(empty[0]))))
        returned: StructType = from_arrow_schema(first.schema)
    except Exception as error:
        raise ValueError(
            "map_batches asked the function for its schema with an empty batch, and it failed: "
            f"{type(error).__name__}: {error}. Pass schema="
        ) from error
    return returned
