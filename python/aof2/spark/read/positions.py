"""Places in streams as options name them, before any log was looked at.

The words are Kafka's: ``earliest``, ``latest``, a number, or JSON that says it per
stream, ``{"events": 1200}`` or ``{"events": {"0": 1200}}``, where -2 is earliest and -1
latest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from aof2.spark.errors import invalid_value
from aof2.spark.values import is_number

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALLOWED = (
    "earliest, latest, an offset, or JSON per stream such as "
    '{"events": 1200} or {"events": {"0": 1200}} (-2 is earliest, -1 latest)'
)


@dataclass(frozen=True)
class Position:
    """A place in one stream."""

    kind: Literal["earliest", "latest", "offset", "timestamp", "snapshot"]
    #: The offset, or milliseconds since the epoch.
    value: int = 0
    #: Of a snapshot.
    name: str = ""


EARLIEST = Position("earliest")
LATEST = Position("latest")


@dataclass(frozen=True)
class Positions:
    """A place in every stream."""

    everywhere: Position
    #: By key or by name of the stream; goes before `everywhere`.
    by_stream: Mapping[str, Position] = field(default_factory=dict)


def parse_positions(option: str, text: str, *, otherwise: Position) -> Positions:
    """Read the value of ``startingOffsets`` or ``endingOffsets``.

    Streams that JSON does not name are read from, or up to, `otherwise`.
    """
    text = text.strip()
    if text.startswith("{"):
        return Positions(otherwise, _parse_json(option, text))
    if text.lower() in ("earliest", "latest"):
        return Positions(EARLIEST if text.lower() == "earliest" else LATEST)
    if not is_number(text):
        raise invalid_value(option, text, _ALLOWED)
    return Positions(Position("offset", int(text)))


def _parse_json(option: str, text: str) -> dict[str, Position]:
    try:
        given: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise invalid_value(option, text, f"{_ALLOWED}; as JSON: {error}") from None
    return {stream: _one(option, text, place) for stream, place in given.items()}


def _one(option: str, text: str, place: Any) -> Position:
    if isinstance(place, dict):
        if list(place) != ["0"]:
            raise invalid_value(option, text, "partition 0 only: a stream is one partition")
        place = place["0"]
    match place:
        case "earliest" | -2:
            return EARLIEST
        case "latest" | -1:
            return LATEST
        case int() if place >= 0 and not isinstance(place, bool):
            return Position("offset", place)
    raise invalid_value(option, text, _ALLOWED)
