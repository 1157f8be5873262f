"""Values of options as people write them: sizes, spans, moments, yes and no."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from aof2._sizes import parse_bytes

_SPAN = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?", re.IGNORECASE)
_SPAN_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SIZE_ALLOWED = (
    "a size such as 1048576, 64k, 128m or 1g (powers of 1024; KB, MB and GB are powers of 1000)"
)
SPAN_ALLOWED = "a span of time such as 500ms, 30s, 15m or 1h"
MOMENT_ALLOWED = (
    "milliseconds since the epoch, or ISO 8601 such as 2026-01-31T12:00:00+02:00 "
    "(UTC where no zone is given)"
)

NAME_ALLOWED = "a name"


def is_number(text: str) -> bool:
    """Plain digits; ``isdecimal`` alone would take those of other scripts."""
    return text.isascii() and text.isdecimal()


def parse_flag(text: str) -> bool:
    """Read ``true`` or ``false``."""
    words = {"true": True, "false": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def parse_name(text: str) -> str:
    """Read a name."""
    if not text:
        raise ValueError(text)
    return text


def parse_count(text: str) -> int:
    """Read a whole number from 1 on."""
    if not is_number(text) or int(text) < 1:
        raise ValueError(text)
    return int(text)


def parse_size_bytes(text: str) -> int:
    """Read ``64k`` or ``1048576``, from 1 on.

    >>> parse_size_bytes("64k"), parse_size_bytes("128 MiB")
    (65536, 134217728)
    """
    size = parse_bytes(text)
    if size == 0:
        raise ValueError(text)
    return size


def parse_span_ms(text: str) -> int:
    """Read ``15m`` or ``500ms``; a bare number is milliseconds.

    >>> parse_span_ms("15m"), parse_span_ms("250")
    (900000, 250)
    """
    found = _SPAN.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * _SPAN_MS[(found[2] or "ms").lower()]


def parse_moment_ms(text: str) -> int:
    """Read a moment, as milliseconds since the epoch.

    A moment without a zone is UTC, so that a query means the same on every machine. A
    fraction of a millisecond is rounded up: a range then holds no earlier record.

    >>> parse_moment_ms("1970-01-01T00:00:01.5"), parse_moment_ms("1500")
    (1500, 1500)
    """
    if is_number(text):
        return int(text)
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    ms = -((_EPOCH - moment) // timedelta(milliseconds=1))
    if ms < 0:
        raise ValueError(text)
    return ms
