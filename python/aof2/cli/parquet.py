"""Parquet, through pyarrow. Imported only by the commands that were asked for it."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from aof2.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from aof2 import ArrowScan

COLUMNS = ("offset", "record_id", "timestamp", "flags", "payload")
_BATCH_ROWS = 16_384


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise CommandError(
            ExitCode.USAGE,
            "missing_dependency",
            f"Parquet needs pyarrow, which cannot be imported ({error})",
            'pip install "aof2[arrow]", or use JSON lines',
        ) from None


def require_pyarrow() -> None:
    """Fail early, before a log or a file is opened."""
    _pyarrow()


def write(scan: "ArrowScan", stream: BinaryIO) -> int:
    """Write what the scan gives, batch by batch, and return the number of records."""
    pyarrow, parquet = _pyarrow()
    count = 0
    batches = pyarrow.RecordBatchReader.from_stream(scan)
    with parquet.ParquetWriter(stream, batches.schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def read(name: str) -> Iterator[Any]:
    """Read record batches of the columns payload, timestamp and flags.

    The last two if the file has them. The batches are checked: appending one fails for
    the log's reasons only.
    """
    pyarrow, parquet = _pyarrow()
    with Path(name).open("rb") as stream:
        try:
            file = parquet.ParquetFile(stream)
        except pyarrow.ArrowInvalid as error:
            raise _invalid(name, f"is not a Parquet file: {error}") from None
        names = file.schema_arrow.names
        if "payload" not in names:
            raise _invalid(name, f"has no column payload; it has {', '.join(names)}")
        wanted = [column for column in ("payload", "timestamp", "flags") if column in names]
        row = 0
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted):
            yield _checked(name, row, batch)
            row += batch.num_rows


def _checked(name: str, first_row: int, batch: Any) -> Any:
    """Return the batch with the column types that the log takes."""
    pyarrow, _ = _pyarrow()
    compute = import_module("pyarrow.compute")
    for column in batch.schema.names:
        if batch.column(column).null_count:
            row = compute.index(compute.is_null(batch.column(column)), True).as_py()
            raise _invalid(name, f"has no {column} in row {first_row + row}")
    payload = batch.column("payload")
    if not _holds_bytes(pyarrow.types, payload.type):
        raise _invalid(name, f"has a payload of type {payload.type}; it must be binary or text")
    empty = compute.index(compute.equal(compute.binary_length(payload), 0), True).as_py()
    if empty >= 0:
        raise _invalid(name, f"has an empty payload in row {first_row + empty}")
    columns = {"payload": payload}
    try:
        if "timestamp" in batch.schema.names:
            utc = pyarrow.timestamp("us", tz="UTC")
            columns["timestamp"] = compute.cast(batch.column("timestamp"), utc, safe=False)
        if "flags" in batch.schema.names:
            columns["flags"] = compute.cast(batch.column("flags"), pyarrow.int32())
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise _invalid(name, f"cannot be used: {error}") from None
    return pyarrow.record_batch(columns)


def _holds_bytes(types: Any, kind: Any) -> bool:
    tests = (
        types.is_binary,
        types.is_large_binary,
        types.is_fixed_size_binary,
        types.is_string,
        types.is_large_string,
    )
    return any(test(kind) for test in tests)


def _invalid(name: str, what: str) -> CommandError:
    return CommandError(ExitCode.USAGE, "invalid_file", f"{name} {what}", path=name)
