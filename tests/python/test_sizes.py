"""Sizes as people write them mean the same wherever they are written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from aof2._sizes import parse_bytes
from hypothesis import given
from hypothesis import strategies as st

#: Written out, not computed as the parser does.
UNITS = {
    "": 1,
    "B": 1,
    "k": 1024,
    "KiB": 1024,
    "KB": 1000,
    "M": 1024**2,
    "MiB": 1024**2,
    "MB": 1000**2,
    "G": 1024**3,
    "GiB": 1024**3,
    "GB": 1000**3,
    "T": 1024**4,
    "TiB": 1024**4,
    "TB": 1000**4,
    "P": 1024**5,
    "PiB": 1024**5,
    "PB": 1000**5,
}
LARGEST = 2**64 - 1

#: Text that is a size, and how many bytes it means, perhaps with a fraction of one.
sizes = st.builds(
    lambda whole, fraction, space, unit, recase: (
        f"{whole}{fraction}{space}{recase(unit)}",
        Fraction(f"{whole}{fraction}") * UNITS[unit],
    ),
    whole=st.integers(0, 2**65).map(str),
    fraction=st.one_of(
        st.just(""), st.text("0123456789", min_size=1, max_size=60).map(lambda digits: f".{digits}")
    ),
    space=st.sampled_from(["", " ", "  "]),
    unit=st.sampled_from(sorted(UNITS)),
    recase=st.sampled_from([str.lower, str.upper, str]),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("64k", 64 << 10),
        ("64K", 64 << 10),
        ("64KiB", 64 << 10),
        ("64 kib", 64 << 10),
        ("64kB", 64_000),
        ("10MB", 10_000_000),
        ("10M", 10 << 20),
        ("1.5G", 3 << 29),
        ("2T", 2 << 40),
        ("17b", 17),
        ("0.0001k", 0),
    ],
)
def test_sizes_are_read(text: str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k",
        "-1",
        "+1",
        "1e6",
        "5 apples",
        "1ib",
        "0x10",
        "1,000",
        "1.",
        ".5",
        "1_0",
        "٣",
        "1\u212a",
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", [str(LARGEST + 1), "16777216T", "9" * 5_000, "20000PB"])
def test_what_no_log_can_hold_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="more than any log can hold"):
        parse_bytes(text)


@given(sizes)
def test_a_size_is_its_number_times_its_unit(size: tuple[str, Fraction]) -> None:
    text, exact = size
    if exact >= LARGEST + 1:
        with pytest.raises(ValueError, match="more than any log can hold"):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == int(exact)


@given(st.integers(0, LARGEST), st.integers(0, 5_000))
def test_exact_sizes_stay_exact_however_many_zeros_they_have(count: int, zeros: int) -> None:
    assert parse_bytes("0" * zeros + str(count)) == count
    assert parse_bytes(f"{count}.{'0' * (zeros + 1)}") == count


@given(st.text("0123456789.kmgtpib eKMGTPIB-", max_size=12))
def test_any_text_is_a_size_or_a_value_error(text: str) -> None:
    try:
        assert 0 <= parse_bytes(text) <= LARGEST
    except ValueError as error:
        assert repr(text) in str(error)


def by_command(text: str) -> int:
    from aof2.cli.options import BYTES

    size: int = BYTES.convert(text, None, None)
    return size


def by_spark(option: str, query: Any) -> Any:
    from aof2.spark.read.options import parse_options

    def parse(text: str) -> int:
        options = parse_options({"path": "events", option: text}, query)
        fields = {
            "batchBytes": options.batch_bytes,
            "maxBytesPerPartition": options.max_bytes_per_partition,
            "maxBytesPerTrigger": options.max_bytes_per_trigger,
        }
        return fields[option] or 0

    return parse


def by_spark_writing(text: str) -> int:
    from aof2.spark.write.options import parse_write_options

    options = parse_write_options({"path": "out", "flushBytes": text}, "batch", overwrite=False)
    return options.flush_bytes or 0


@pytest.mark.parametrize(
    "parse",
    [
        pytest.param(by_command, id="command line"),
        pytest.param(by_spark("batchBytes", "batch"), id="batchBytes"),
        pytest.param(by_spark("maxBytesPerPartition", "batch"), id="maxBytesPerPartition"),
        pytest.param(by_spark("maxBytesPerTrigger", "stream"), id="maxBytesPerTrigger"),
        pytest.param(by_spark_writing, id="flushBytes"),
    ],
)
@pytest.mark.parametrize("unit", sorted(UNITS))
def test_a_unit_means_the_same_in_every_option(parse: Any, unit: str) -> None:
    assert parse(f"10{unit}") == 10 * UNITS[unit]
    assert parse(f"1.5 {unit.lower()}") == int(1.5 * UNITS[unit])
