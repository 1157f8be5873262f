"""The options of ``format("aof2")`` for reading.

One table names them all. An option that is not in it, a value that is not allowed, and
an option that only the other kind of query has are refused by name: a typing mistake
must not read the wrong records.
"""

from __future__ import annotations

import difflib
import json
import os
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from aof2.spark.errors import InvalidOption, invalid_value, listed
from aof2.spark.read.positions import EARLIEST, LATEST, Position, Positions, parse_positions
from aof2.spark.streams import place_of
from aof2.spark.values import (
    MOMENT_ALLOWED,
    NAME_ALLOWED,
    SIZE_ALLOWED,
    SPAN_ALLOWED,
    parse_count,
    parse_flag,
    parse_moment_ms,
    parse_name,
    parse_size_bytes,
    parse_span_ms,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aof2._types import OnCorruption, StrPath, Visibility

Query = Literal["batch", "stream"]
Layout = Literal["records", "kafka"]

_WHOLE = "a whole number from 1 on"
_FLAG = "true or false"

FROM_EARLIEST = Positions(EARLIEST)
UP_TO_LATEST = Positions(LATEST)


@dataclass(frozen=True)
class ReadOptions:
    """What to read and how; every default has a reason in docs/spark.md."""

    paths: tuple[str, ...]
    layout: Layout = "records"
    starting: Positions = FROM_EARLIEST
    ending: Positions = UP_TO_LATEST
    visibility: Visibility = "durable"
    fail_on_data_loss: bool = True
    on_corruption: OnCorruption = "fail"
    #: None: where payloads are read.
    verify_checksums: bool | None = None
    #: None: as many as the driver has processors, if there is work for them.
    min_partitions: int | None = None
    max_bytes_per_partition: int = 128 << 20
    batch_bytes: int = 1 << 20
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000


@dataclass(frozen=True)
class _Option:
    name: str
    #: The field of `ReadOptions`; None if it takes more than one option to know it.
    field: str | None
    parse: Callable[[str], Any]
    allowed: str
    query: Query | None = None


def _word(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return parse


def _words(name: str, field: str, *words: str) -> _Option:
    return _Option(name, field, _word(*words), listed(words))


_OPTIONS = (
    _Option("path", None, str, "a directory"),
    _Option("paths", None, json.loads, "a JSON list of directories"),
    _words("layout", "layout", "records", "kafka"),
    _Option("startingOffsets", None, str, "an offset"),
    _Option("endingOffsets", None, str, "an offset", "batch"),
    _Option("startingTimestamp", None, parse_moment_ms, MOMENT_ALLOWED),
    _Option("endingTimestamp", None, parse_moment_ms, MOMENT_ALLOWED, "batch"),
    _Option("snapshot", None, parse_name, NAME_ALLOWED, "batch"),
    _words("visibility", "visibility", "durable", "appended"),
    _Option("failOnDataLoss", "fail_on_data_loss", parse_flag, _FLAG),
    _words("onCorruption", "on_corruption", "fail", "skip"),
    _Option("verifyChecksums", "verify_checksums", parse_flag, _FLAG),
    _Option("minPartitions", "min_partitions", parse_count, _WHOLE),
    _Option("maxBytesPerPartition", "max_bytes_per_partition", parse_size_bytes, SIZE_ALLOWED),
    _Option("batchBytes", "batch_bytes", parse_size_bytes, SIZE_ALLOWED),
    _Option("pushdown", None, parse_flag, _FLAG),
    _Option("maxOffsetsPerTrigger", "max_offsets_per_trigger", parse_count, _WHOLE, "stream"),
    _Option(
        "maxBytesPerTrigger", "max_bytes_per_trigger", parse_size_bytes, SIZE_ALLOWED, "stream"
    ),
    _Option("minOffsetsPerTrigger", "min_offsets_per_trigger", parse_count, _WHOLE, "stream"),
    _Option("maxTriggerDelay", "max_trigger_delay_ms", parse_span_ms, SPAN_ALLOWED, "stream"),
)
_BY_NAME = {option.name.lower(): option for option in _OPTIONS}


def option_names(query: Query) -> list[str]:
    """Return the options of one kind of query."""
    return [option.name for option in _OPTIONS if option.query in (None, query)]


def parse_options(given: Mapping[str, str], query: Query) -> ReadOptions:
    """Read the options of ``spark.read`` or ``spark.readStream``."""
    values = {}
    for name, text in given.items():
        option = _known(name, query)
        values[option.name] = _parsed(option, text)
    _refuse_pushdown(values)
    if query == "stream" and values.get("visibility") == "appended":
        raise invalid_value(
            "visibility",
            "appended",
            "durable: a streaming query may not hand on records that a crash can still take back",
        )
    fields = {
        option.field: values[option.name]
        for option in _OPTIONS
        if option.name in values and option.field is not None
    }
    return ReadOptions(
        paths=_paths(values),
        starting=_starting(values, query),
        ending=_ending(values),
        **fields,
    )


def parse_layout(given: Mapping[str, str]) -> Layout:
    """Read the one option that decides about the columns."""
    text = given.get("layout")
    layout: Layout = _parsed(_BY_NAME["layout"], text) if text is not None else "records"
    return layout


def read_options(
    path: StrPath | Sequence[StrPath], given: dict[str, Any], *, local: bool = True
) -> ReadOptions:
    """Read options given as Python values; `local` makes paths absolute on this machine."""
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    texts = [os.fspath(each) for each in paths]
    options = parse_options({"path": texts[0] if texts else "", **_as_text(given)}, "batch")
    return replace(options, paths=tuple(place_of(text) if local else text for text in texts))


def _as_text(given: dict[str, Any]) -> dict[str, str]:
    """Options as Spark would pass them: text."""
    texts = {}
    for name, value in given.items():
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        elif isinstance(value, datetime):
            texts[name] = value.isoformat()
        elif isinstance(value, dict):
            texts[name] = json.dumps(value)
        else:
            texts[name] = str(value)
    return texts


def _known(name: str, query: Query) -> _Option:
    option = _BY_NAME.get(name.lower())
    if option is None:
        close = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
        meant = f" (did you mean {_BY_NAME[close[0]].name}?)" if close else ""
        raise InvalidOption(
            f"there is no option {name!r}{meant}; options: {', '.join(option_names(query))}",
            option=name,
        )
    if option.query not in (None, query):
        method = "spark.read" if option.query == "batch" else "spark.readStream"
        raise InvalidOption(f"option {option.name} is for {method} only", option=option.name)
    return option


def _parsed(option: _Option, text: str) -> Any:
    try:
        return option.parse(text.strip())
    except (ValueError, OverflowError):
        raise invalid_value(option.name, text, option.allowed) from None


def _paths(values: Mapping[str, Any]) -> tuple[str, ...]:
    if "paths" in values:
        paths = values["paths"]
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise invalid_value("paths", paths, "a JSON list of directories")
    else:
        paths = [values["path"]] if values.get("path") else []
    if not paths:
        raise InvalidOption('which log? .load("data/events") names its directory', option="path")
    return tuple(paths)


def _starting(values: Mapping[str, Any], query: Query) -> Positions:
    given = _one_of(values, "startingOffsets", "startingTimestamp")
    if given == "startingTimestamp":
        return Positions(Position("timestamp", values[given]))
    if given is None:
        # As Kafka's source: a batch reads what there is, a stream what will come.
        return Positions(EARLIEST if query == "batch" else LATEST)
    starting = parse_positions(given, values[given], otherwise=EARLIEST)
    if query == "batch" and starting.everywhere == LATEST:
        raise invalid_value(
            given, "latest", "another start: a batch has nothing to read from there"
        )
    return starting


def _ending(values: Mapping[str, Any]) -> Positions:
    given = _one_of(values, "endingOffsets", "endingTimestamp", "snapshot")
    if given == "snapshot":
        return Positions(Position("snapshot", name=values[given]))
    if given is None:
        return Positions(LATEST)
    if given == "endingTimestamp":
        return Positions(Position("timestamp", values[given]))
    ending = parse_positions(given, values[given], otherwise=LATEST)
    if ending.everywhere == EARLIEST:
        raise invalid_value(
            given, "earliest", "another end: a batch has nothing to read up to there"
        )
    return ending


def _one_of(values: Mapping[str, Any], *names: str) -> str | None:
    given = [name for name in names if name in values]
    if len(given) > 1:
        first, second = given[:2]
        raise InvalidOption(f"options {first} and {second} exclude each other", option=second)
    return given[0] if given else None


def _refuse_pushdown(values: Mapping[str, Any]) -> None:
    """No released Spark keeps the filters of two scans of one DataFrame apart.

    A query would silently get the rows of the other filter, so ranges are options.
    """
    if values.get("pushdown"):
        raise invalid_value(
            "pushdown",
            "true",
            "false: Spark up to 4.3 mixes up the filters of a DataFrame that is scanned twice. "
            "startingOffsets, endingOffsets, startingTimestamp and endingTimestamp read a range",
        )
