"""Bytes, counts, rates and ages as people read them, and ages as they type them."""

import re

_STEP = 1024
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_AGE_PART = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_AGE_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
}


def human_bytes(count: float) -> str:
    """``1536`` as ``1.5 KiB``. Binary units, three digits at least.

    >>> human_bytes(1536), human_bytes(17), human_bytes(64 << 20)
    ('1.5 KiB', '17 B', '64 MiB')
    """
    size = float(count)
    unit = 0
    # 1023.96 would be printed as "1024.0": it belongs to the next unit.
    while size >= _STEP - 0.05 and unit + 1 < len(_SIZES):
        size /= _STEP
        unit += 1
    if unit == 0:
        return f"{size:.0f} B"
    text = f"{size:.1f}".removesuffix(".0")
    return f"{text} {_SIZES[unit]}"


def human_ratio(before: int, after: int) -> str:
    """Show how many times smaller something became.

    >>> human_ratio(1000, 250), human_ratio(100, 140)
    ('4.0x', '0.7x')
    """
    return f"{before / after:.1f}x"


def human_count(count: int) -> str:
    """``1234567`` as ``1,234,567``."""
    return f"{count:,}"


def plural(count: int, noun: str) -> str:
    """``1 record``, ``1,234 records``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def human_ms(ms: int) -> str:
    """Show a span of time, in its two largest units.

    >>> human_ms(250), human_ms(5_400_000), human_ms(90_061_000)
    ('250ms', '1h30m', '1d1h')
    """
    if ms < 1_000:
        return f"{ms}ms"
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        amount, ms = divmod(ms, _AGE_MS[unit])
        if amount or parts:
            parts.append(f"{amount}{unit}")
        if len(parts) == 2:
            break
    return "".join(part for part in parts if not part.startswith("0"))


def parse_age_ms(text: str) -> int:
    """``90s``, ``15m``, ``1h30m``, ``7d``, in milliseconds.

    >>> parse_age_ms("1h30m"), parse_age_ms("250ms")
    (5400000, 250)
    """
    parts = _AGE_PART.findall(text.strip().lower())
    if not parts or "".join(number + unit for number, unit in parts) != text.strip().lower():
        raise ValueError(f"{text!r} is not a span of time; write it like 90s, 15m, 1h30m or 7d")
    age = sum(int(number) * _AGE_MS[unit] for number, unit in parts)
    # No option of the package takes more than 64 bits.
    if age >= 1 << 64:
        raise ValueError(f"{text!r} is more than any log can hold")
    return age
