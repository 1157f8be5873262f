"""The options of ``format("aof2")`` for writing.

As for reading: one table, and what is not in it is refused by name.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from aof2.spark.commits import Txn
from aof2.spark.errors import InvalidOption, invalid_value
from aof2.spark.streams import local_path
from aof2.spark.values import (
    SIZE_ALLOWED,
    SPAN_ALLOWED,
    is_number,
    parse_count,
    parse_size_bytes,
    parse_span_ms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aof2.spark.write.publish import IfExists

Query = Literal["batch", "stream"]
Format = Literal["full", "compact"]
OnKey = Literal["fail", "drop"]

_SEGMENT_BYTES_MIN = 64 << 10
_SEGMENT_BYTES_MAX = 2 << 30


@dataclass(frozen=True)
class WriteOptions:
    """Where to write and how; every default has a reason in docs/spark-writing.md."""

    target: Path
    #: None: grows with the rows of the task, as the log decides.
    segment_bytes: int | None = None
    format: Format = "full"
    on_key: OnKey = "fail"
    if_exists: IfExists = "append"
    #: In a streaming query None: the query's own id.
    txn_app_id: str | None = None
    txn_version: int | None = None
    staging_max_age_ms: int = 7 * 86_400_000
    lock_timeout_ms: int = 120_000
    flush_bytes: int | None = None
    open_streams_max: int = 64

    @property
    def txn(self) -> Txn | None:
        """What the options say about recognising this write."""
        if self.txn_app_id is None or self.txn_version is None:
            return None
        return Txn(self.txn_app_id, self.txn_version)


@dataclass(frozen=True)
class _Option:
    name: str
    #: The field of `WriteOptions`; None for what Spark itself uses.
    field: str | None
    parse: Callable[[str], Any]
    allowed: str
    query: Query | None = None


def _words(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return parse


def _segment_bytes(text: str) -> int:
    size = parse_size_bytes(text)
    if not _SEGMENT_BYTES_MIN <= size <= _SEGMENT_BYTES_MAX or size & (size - 1):
        raise ValueError(text)
    return size


def _version(text: str) -> int:
    if not is_number(text):
        raise ValueError(text)
    return int(text)


def _name(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


_OPTIONS = (
    _Option("path", "target", lambda text: Path(local_path(text)), "a directory"),
    _Option("segmentBytes", "segment_bytes", _segment_bytes, "a power of two from 64k to 2g"),
    _Option("format", "format", _words("full", "compact"), "full or compact"),
    _Option("onKey", "on_key", _words("fail", "drop"), "fail or drop"),
    _Option(
        "ifExists",
        "if_exists",
        _words("append", "error", "ignore"),
        "append, error or ignore",
        "batch",
    ),
    _Option(
        "txnAppId", "txn_app_id", _name, "a name that stays the same when the job is run again"
    ),
    _Option("txnVersion", "txn_version", _version, "a whole number that grows", "batch"),
    _Option("stagingMaxAge", "staging_max_age_ms", parse_span_ms, SPAN_ALLOWED),
    _Option("lockTimeout", "lock_timeout_ms", parse_span_ms, SPAN_ALLOWED),
    _Option("flushBytes", "flush_bytes", parse_size_bytes, SIZE_ALLOWED),
    _Option("maxOpenStreams", "open_streams_max", parse_count, "a whole number from 1 on"),
    _Option("checkpointLocation", None, str, "a directory", "stream"),
)
_BY_NAME = {option.name.lower(): option for option in _OPTIONS}


def write_option_names(query: Query) -> list[str]:
    """Return the options of one kind of query."""
    return [option.name for option in _OPTIONS if option.query in (None, query)]


def parse_write_options(given: Mapping[str, str], query: Query, *, overwrite: bool) -> WriteOptions:
    """Read the options of ``df.write`` or ``df.writeStream``."""
    fields: dict[str, Any] = {}
    for name, text in given.items():
        option = _known(name, query)
        try:
            value = option.parse(text.strip())
        except InvalidOption:
            raise
        except (ValueError, OverflowError):
            raise invalid_value(option.name, text, option.allowed) from None
        if option.field is not None:
            fields[option.field] = value
    if not given.get("path"):
        raise InvalidOption('where to? .save("data/derived") names a directory', option="path")
    options = WriteOptions(**fields)
    if query == "batch":
        _check_txn(options)
    if overwrite and options.if_exists != "append":
        raise InvalidOption(
            'option ifExists is for mode("append"); mode("overwrite") replaces what exists',
            option="ifExists",
        )
    return options


def _check_txn(options: WriteOptions) -> None:
    if (options.txn_app_id is None) != (options.txn_version is None):
        missing = "txnVersion" if options.txn_version is None else "txnAppId"
        raise InvalidOption(
            f"options txnAppId and txnVersion belong together, {missing} is missing: a job that "
            "is run again is recognised by both",
            option=missing,
        )


def _known(name: str, query: Query) -> _Option:
    option = _BY_NAME.get(name.lower())
    if option is None:
        close = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
        meant = f"; did you mean {_BY_NAME[close[0]].name}?" if close else ";"
        raise InvalidOption(
            f"there is no option {name!r} for writing{meant} "
            f"options: {', '.join(write_option_names(query))}",
            option=name,
        )
    if option.query not in (None, query):
        method = "df.write" if option.query == "batch" else "df.writeStream"
        raise InvalidOption(f"option {option.name} is for {method} only", option=option.name)
    return option
