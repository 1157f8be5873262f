"""Printing records, for ``cat``, ``tail`` and ``export``."""

from typing import TYPE_CHECKING, BinaryIO

from aof2.cli.errors import CommandError, ExitCode
from aof2.cli.units import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aof2 import Record
    from aof2._types import OnCorruption, Visibility
    from aof2.cli.payloads import RecordFormat

#: Bytes gathered before they are written: one write for many small records.
_WRITE_BYTES = 1 << 16


def write_records(records: "Iterable[Record]", encoding: "RecordFormat", out: BinaryIO) -> int:
    """Write records, and return their number.

    What was read before an error is written before the error is raised.
    """
    count = 0
    gathered = bytearray()
    try:
        for record in records:
            gathered += encoding.encode(record)
            count += 1
            if len(gathered) >= _WRITE_BYTES:
                out.write(gathered)
                # Not clear(): the writer may still hold the old buffer.
                gathered = bytearray()
    finally:
        out.write(gathered)
    return count


def fail_if_skipped(skipped: int) -> None:
    """Fail with exit code 5 if a scan passed over damage.

    All that is intact was printed, and that was not all there had been.
    """
    if skipped:
        raise CommandError(
            ExitCode.CORRUPT,
            "skipped",
            f"{plural(skipped, 'damaged record')} skipped",
            "aof2 verify shows where",
            skipped=skipped,
        )


def visibility(with_appended: bool) -> "Visibility":
    """Return the package's word for which records are seen."""
    return "appended" if with_appended else "durable"


def on_corruption(skip_damage: bool) -> "OnCorruption":
    """Return the package's word for what damage does."""
    return "skip" if skip_damage else "fail"
