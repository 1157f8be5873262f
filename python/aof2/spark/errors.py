"""What a person who runs a Spark query can do something about.

Spark shows the last line of a Python error, from whichever process it came. So each
message stands alone: what was asked for, where it failed, what is allowed or what to do.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from aof2 import Corrupt, Error, IoError, Trimmed

if TYPE_CHECKING:
    from collections.abc import Sequence


class InvalidOption(Error, ValueError):
    """An option is not known, or its value is not allowed."""

    option: str
    """The option as documented."""

    def __init__(self, message: str, *, option: str) -> None:
        super().__init__(message)
        self.option = option


class InvalidSchema(Error, ValueError):
    """A schema names a column that a log does not have, or gives it another type."""

    column: str
    """The column."""

    def __init__(self, message: str, *, column: str) -> None:
        super().__init__(message)
        self.column = column


class DataLoss(Trimmed):
    """Records that a query asked for are gone: retention removed them, or the log is another."""

    stream: str
    """The stream's key, as in streaming offsets."""

    def __init__(self, message: str, *, stream: str, earliest: int) -> None:
        super().__init__(message, earliest=earliest)
        self.stream = stream


class IncompleteRead(Error, OSError):
    """A task saw fewer records than the plan says there are."""


class PackageMismatch(Error, ImportError):
    """This process cannot read what another one planned: a package is missing or too old."""


def invalid_value(option: str, value: object, allowed: str) -> InvalidOption:
    """Name the option, the value, and what would have been right."""
    return InvalidOption(
        f"option {option}: {value!r} is not allowed; give {allowed}", option=option
    )


def listed(names: Sequence[str]) -> str:
    """Return ``a, b or c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def explained(error: BaseException) -> BaseException:
    """Add what a Spark user can do to an error of the log, and return it."""
    match error:
        case Corrupt():
            remedy = 'option("onCorruption", "skip") reads the intact rest and counts what it passed over'
        case DataLoss():
            return error
        case Trimmed():
            remedy = 'option("failOnDataLoss", "false") goes on with the first record that is left'
        case IoError(errno=errno.ENOMEM):
            remedy = (
                "spark.executor.pyspark.memory limits the address space of a worker, and the "
                "segment that is being written is mapped: raise it, or write smaller segments"
            )
        case IoError(errno=errno.EACCES | errno.EPERM):
            remedy = "the user that runs Spark's workers needs to read the directory and its files"
        case _:
            return error
    error.args = (f"{error}; {remedy}",)
    return error
