"""Times and positions as people type them.

A time without a zone is UTC: a log outlives the machine that wrote it, and the same
command must mean the same range on every machine.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from aof2.cli.units import parse_age_ms

if TYPE_CHECKING:
    from aof2._types import StartLike

_RECORD_ID = re.compile(r"\d+:\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_MAX = 2**64 - 1

TIME_HELP = (
    'ISO 8601 ("2026-01-31", "2026-01-31T12:00:00+02:00"; UTC where no zone is given), '
    '"now", or an age such as "-15m" or "-1h30m"'
)


def parse_time(text: str, *, now: datetime | None = None) -> datetime:
    """Read an aware time from ISO 8601, ``now`` or ``-15m``."""
    text = text.strip()
    now = now or datetime.now(UTC)
    if text == "now":
        return now
    if text.startswith("-"):
        try:
            return now - timedelta(milliseconds=parse_age_ms(text[1:]))
        except OverflowError:
            raise ValueError(f"{text!r} lies before the first year a date can have") from None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time; write it as {TIME_HELP}") from None
    if time.tzinfo is None:
        return time.replace(tzinfo=UTC)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} in UTC lies outside the years a date can have") from None


def parse_position(text: str, *, now: datetime | None = None) -> "StartLike":
    """Read a place in a log: ``earliest``, ``latest``, an offset, a record id, or a time."""
    from aof2 import RecordId

    text = text.strip()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    # isdecimal alone would take digits of other scripts.
    if text.isascii() and text.isdecimal():
        return _offset(text)
    if _RECORD_ID.fullmatch(text):
        return RecordId.parse(text)
    try:
        # No record is older than the epoch; the package takes nothing before it.
        return max(parse_time(text, now=now), _EPOCH)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither an offset (1200), nor a record id (3:64), nor earliest or "
            f"latest, nor a time: {TIME_HELP}"
        ) from None


def _offset(text: str) -> int:
    # Python reads no number of thousands of digits; this one needs twenty.
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(_OFFSET_MAX)) or int(digits) > _OFFSET_MAX:
        raise ValueError(f"an offset is at most {_OFFSET_MAX}")
    return int(digits)


def iso_ms(timestamp_ms: int | None) -> str | None:
    """``2026-01-31T12:00:00.000Z``; None for none, and for times past the year 9999."""
    if timestamp_ms is None:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_text(timestamp_ms: int | None) -> str:
    """Return the same for people: ``-`` where there is no time."""
    if timestamp_ms is None:
        return "-"
    return iso_ms(timestamp_ms) or f"{timestamp_ms} ms"


def timestamp_ms(time: datetime) -> int:
    """Milliseconds since the epoch, exactly; fractions are cut off."""
    ms = (time - _EPOCH) // timedelta(milliseconds=1)
    if ms < 0:
        raise ValueError(f"{time.isoformat()} is before 1970, where timestamps begin")
    return ms
