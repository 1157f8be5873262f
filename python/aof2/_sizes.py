"""Sizes in bytes as people write them: the one reader of all commands and options.

| written | means |
|---|---|
| `65536`, `65536B` | bytes |
| `64k`, `64KiB`, and so on with M, G, T, P | powers of 1024 |
| `64KB`, and so on with M, G, T, P | powers of 1000 |

Case does not matter. A fraction of a byte is cut off.
"""

from __future__ import annotations

import re

_PREFIXES = "kmgtp"
_UNIT_BYTES = {
    "": 1,
    "b": 1,
    **{prefix: 1024**power for power, prefix in enumerate(_PREFIXES, 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate(_PREFIXES, 1)},
    **{f"{prefix}b": 1000**power for power, prefix in enumerate(_PREFIXES, 1)},
}
# Digits of other scripts, and letters that only look like these, are none.
_SIZE = re.compile(r"([0-9]+)(?:\.([0-9]+))?\s*([a-z]*)", re.ASCII | re.IGNORECASE)
#: No option of the package takes more than 64 bits.
_BYTES_MAX = 2**64 - 1
_DIGITS_MAX = len(str(_BYTES_MAX))
#: The largest unit is 2 to the 50, and no multiple of its inverse has more digits.
_FRACTION_DIGITS_MAX = 50


def parse_bytes(text: str) -> int:
    """Read a size; a ValueError says what is wrong with it.

    >>> parse_bytes("64k"), parse_bytes("1.5GiB"), parse_bytes("10MB")
    (65536, 1610612736, 10000000)
    """
    found = _SIZE.fullmatch(text.strip())
    unit_bytes = _UNIT_BYTES.get(found[3].lower()) if found else None
    if found is None or unit_bytes is None:
        raise ValueError(f"{text!r} is not a size; write it like 64k, 1.5GiB or 1048576")
    whole = found[1].lstrip("0")
    fraction = (found[2] or "")[:_FRACTION_DIGITS_MAX]
    # Python reads no number of thousands of digits; this one needs twenty.
    size = _BYTES_MAX + 1
    if len(whole) <= _DIGITS_MAX:
        size = int(f"0{whole}{fraction}") * unit_bytes // 10 ** len(fraction)
    if size > _BYTES_MAX:
        raise ValueError(f"{text!r} is more than any log can hold")
    return size
