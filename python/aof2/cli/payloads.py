"""Records as text, hexadecimal and JSON.

In JSON a payload that is valid UTF-8 is text, any other is base64, and
``payload_encoding`` says which: ``text`` or ``base64``. Both come back exactly.
"""

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from aof2.cli.output import json_line
from aof2.cli.times import iso_ms, parse_time, time_text, timestamp_ms

if TYPE_CHECKING:
    from aof2 import Record

#: Characters that would break a line or speak to a terminal. A tab does neither.
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_HEX_WIDTH = 16
_FLAGS_MAX = 2**32 - 1
_TIMESTAMP_MAX = 2**64 - 1


def encode_payload(payload: bytes) -> tuple[str, str]:
    """Encode a payload for JSON, and tell which encoding that is."""
    try:
        return payload.decode("utf-8"), "text"
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode("ascii"), "base64"


def decode_payload(text: str, encoding: str) -> bytes:
    """Decode a payload from JSON."""
    if encoding == "text":
        return text.encode("utf-8")
    if encoding != "base64":
        raise ValueError(f"payload_encoding {encoding!r} is neither text nor base64")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"payload is not base64: {error}") from None


def record_object(record: "Record") -> dict[str, Any]:
    """Make a JSON object of a record."""
    payload, encoding = encode_payload(bytes(record))
    return {
        "offset": record.offset,
        "id": str(record.id),
        "timestamp": iso_ms(record.timestamp_ms),
        "timestamp_ms": record.timestamp_ms,
        "flags": record.flags,
        "payload": payload,
        "payload_encoding": encoding,
    }


def parse_record_object(value: object) -> tuple[bytes, int | None, int]:
    """Read payload, timestamp and flags of an object; only the payload must be there.

    ``timestamp_ms`` counts before ``timestamp``, which people may write by hand.
    """
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    text = value.get("payload")
    if not isinstance(text, str):
        raise ValueError('"payload" must be a string')
    payload = decode_payload(text, value.get("payload_encoding", "text"))
    if not payload:
        raise ValueError('"payload" is empty; a record has at least one byte')
    flags = value.get("flags", 0)
    if not _is_int(flags, _FLAGS_MAX):
        raise ValueError('"flags" must be a number from 0 to 4294967295')
    return payload, _timestamp_of(value), flags


def _timestamp_of(value: dict[str, Any]) -> int | None:
    ms = value.get("timestamp_ms")
    if ms is not None:
        if not _is_int(ms, _TIMESTAMP_MAX):
            raise ValueError('"timestamp_ms" must be milliseconds since 1970, a whole number')
        return int(ms)
    text = value.get("timestamp")
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError('"timestamp" must be a string')
    return timestamp_ms(parse_time(text))


def _is_int(value: object, maximum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= maximum


def as_text(payload: bytes) -> str:
    """Show a payload as one line for people: what is not printable is escaped.

    A backslash stays as it is, so that JSON in payloads stays JSON; ``raw`` and
    ``json`` are the exact forms.
    """
    text = payload.decode("utf-8", "backslashreplace")
    return _UNPRINTABLE.sub(lambda found: _ESCAPES.get(found[0]) or _escape(found[0]), text)


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\0": "\\0"}


def _escape(char: str) -> str:
    return f"\\x{ord(char):02x}" if ord(char) < 0x100 else f"\\u{ord(char):04x}"


def as_hex(payload: bytes) -> str:
    """Dump in hexadecimal: position, sixteen bytes, the same as characters."""
    lines = []
    for start in range(0, len(payload), _HEX_WIDTH):
        row = payload[start : start + _HEX_WIDTH]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        characters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {left:<23}  {right:<23}  |{characters}|")
    return "\n".join(lines)


class RecordFormat:
    """Turns records into the bytes of one output format."""

    NAMES = ("text", "raw", "json", "hex")

    def __init__(self, name: str, *, with_meta: bool = False, delimiter: bytes = b"\n") -> None:
        self._name = name
        self._with_meta = with_meta
        self._delimiter = delimiter

    def encode(self, record: "Record") -> bytes:
        """Encode one record with what ends it."""
        match self._name:
            case "json":
                return json_line(record_object(record))
            case "raw":
                return bytes(record) + self._delimiter
            case "hex":
                head = f"{_meta(record)}\t{len(record)} bytes\n"
                return (head + as_hex(bytes(record)) + "\n").encode()
        prefix = f"{_meta(record)}\t" if self._with_meta else ""
        return (prefix + as_text(bytes(record)) + "\n").encode()


def _meta(record: "Record") -> str:
    flags = f"\tflags={record.flags}" if record.flags else ""
    return f"{record.offset}\t{time_text(record.timestamp_ms)}{flags}"
