"""What people type and read: sizes, spans, times, positions."""

from datetime import UTC, datetime, timedelta, timezone

import aof2
import pytest
from aof2._sizes import parse_bytes
from aof2.cli.payloads import as_hex, as_text, decode_payload, encode_payload
from aof2.cli.times import iso_ms, parse_position, parse_time, timestamp_ms
from aof2.cli.units import human_bytes, human_ms, parse_age_ms
from cli_support import UNHURRIED
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@UNHURRIED
@given(st.integers(0, 2**63))
def test_shown_sizes_are_close_and_short(count: int) -> None:
    shown = human_bytes(count)
    assert len(shown) <= 10
    assert abs(parse_bytes(shown.replace("EiB", "")) - count) <= 0.05 * count or "EiB" in shown


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**20 - 1, "1 MiB")],
)
def test_sizes_are_shown(count: int, expected: str) -> None:
    assert human_bytes(count) == expected


@pytest.mark.parametrize(
    ("text", "ms"),
    [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("1h30m", 5_400_000), ("1w", 604_800_000)],
)
def test_spans_are_read(text: str, ms: int) -> None:
    assert parse_age_ms(text) == ms
    assert parse_age_ms(human_ms(ms)) == ms


@pytest.mark.parametrize("text", ["", "m", "15", "-15m", "1.5h", "1h 30m", "15min"])
def test_what_is_no_span_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a span of time"):
        parse_age_ms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW),
        ("-15m", NOW - timedelta(minutes=15)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31 12:00:00.250Z", datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)),
        ("2026-01-31T12:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_times_are_read_and_those_without_a_zone_are_utc(text: str, expected: datetime) -> None:
    assert parse_time(text, now=NOW) == expected
    assert parse_time(text, now=NOW).tzinfo is UTC


@UNHURRIED
@given(
    st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)),
    st.integers(-23, 23),
)
def test_a_time_means_the_same_in_every_zone(time: datetime, hours: int) -> None:
    try:
        there = time.astimezone(timezone(timedelta(hours=hours)))
    except OverflowError:
        return
    assert parse_time(there.isoformat()) == time


@UNHURRIED
@given(st.integers(0, 253_402_300_799_999))
def test_shown_times_read_back_to_the_millisecond(ms: int) -> None:
    shown = iso_ms(ms)
    assert shown is not None
    assert timestamp_ms(parse_time(shown)) == ms


def test_times_past_the_calendar_have_no_date() -> None:
    assert iso_ms(2**62) is None


def test_positions_are_told_apart() -> None:
    assert parse_position("earliest") == "earliest"
    assert parse_position("latest") == "latest"
    assert parse_position("1200") == 1200
    assert parse_position("3:64") == aof2.RecordId(3, 64)
    assert parse_position("-15m", now=NOW) == NOW - timedelta(minutes=15)
    for wrong in ("", "soon", "-1", "٣", "1:2:3", "99-99-99"):
        with pytest.raises(ValueError, match="neither an offset"):
            parse_position(wrong)


@UNHURRIED
@given(st.binary(max_size=200))
def test_any_payload_survives_json_and_says_how(payload: bytes) -> None:
    text, encoding = encode_payload(payload)
    assert decode_payload(text, encoding) == payload
    assert encoding in ("text", "base64")


@UNHURRIED
@given(st.one_of(st.binary(max_size=200), st.text().map(str.encode)))
def test_text_is_one_line_that_says_nothing_to_a_terminal(payload: bytes) -> None:
    shown = as_text(payload)
    assert "\n" not in shown
    assert all(char == "\t" or not "\x00" <= char < "\x20" for char in shown)
    assert "\x1b" not in shown
    assert "\x9b" not in shown


def test_text_keeps_what_is_readable() -> None:
    assert as_text(b'{"a": "b\\n\\u00e9"}') == '{"a": "b\\n\\u00e9"}'
    assert as_text("grün\tund\n\x1b[31mrot".encode()) == "grün\tund\\n\\x1b[31mrot"
    assert as_text(b"\xff\x00ok") == "\\xff\\0ok"


def test_hexadecimal_shows_place_bytes_and_characters() -> None:
    assert as_hex(b"hello, world\x00\x01\xff!and more").splitlines() == [
        "00000000  68 65 6c 6c 6f 2c 20 77  6f 72 6c 64 00 01 ff 21  |hello, world...!|",
        "00000010  61 6e 64 20 6d 6f 72 65                           |and more|",
    ]
