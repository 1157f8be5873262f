"""info, segments, cat and tail show what is there, exactly."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aof2
import pytest
from cli_support import FIRST_MS, UNHURRIED, check_golden, flip, make_log, normal, run
from hypothesis import given, settings
from hypothesis import strategies as st


def iso(ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)).isoformat()


def offsets(result: Any) -> list[int]:
    return [line["offset"] for line in result.ok().lines()]


def test_info_is_as_stored(log: Path, tmp_path: Path) -> None:
    check_golden("info", normal(run("info", log).ok().text, tmp_path))


def test_info_as_json_is_as_stored(log: Path, tmp_path: Path) -> None:
    check_golden("info-json", normal(run("info", "--json", log).ok().text, tmp_path))


def test_info_of_an_empty_log(tmp_path: Path) -> None:
    make_log(tmp_path / "empty", [])
    facts = run("info", "--json", tmp_path / "empty").ok().json()
    assert facts["record_count"] == 0
    assert facts["durable_offset"] == 0
    assert facts["first_timestamp"] is None
    assert facts["last_timestamp"] is None
    assert "offsets\tnone" in run("info", tmp_path / "empty").ok().text


def test_info_of_a_damaged_log_still_answers(log: Path) -> None:
    for offset in (0, 5):
        flip(log, offset)
    facts = run("info", "--json", log).ok().json()
    assert facts["durable_offset"] == 6
    assert facts["record_count"] == 6


def test_segments_are_as_stored(log: Path, tmp_path: Path) -> None:
    check_golden("segments-json", normal(run("segments", "--json", log).ok().text, tmp_path))
    header, *rows = run("segments", log).ok().text.splitlines()
    assert header.split("\t")[:5] == ["segment", "state", "tier", "first offset", "records"]
    assert [row.split("\t")[:5] for row in rows] == [
        ["0", "sealed", "hot", "0", "2"],
        ["1", "sealed", "hot", "2", "2"],
        ["2", "open", "hot", "4", "2"],
    ]


def test_segments_name_files_that_exist(log: Path) -> None:
    for segment in run("segments", "--json", log).ok().lines():
        assert Path(segment["path"]).stat().st_size == segment["file_bytes"]


@pytest.mark.parametrize("output", ["text", "raw", "json", "hex"])
def test_cat_is_as_stored(log: Path, output: str) -> None:
    result = run("cat", log, "--output", output).ok()
    check_golden(f"cat-{output}", result.stdout.decode("utf-8", "backslashreplace"))


def test_cat_with_meta_is_as_stored(log: Path) -> None:
    check_golden("cat-meta", run("cat", log, "--meta").ok().text)


def test_cat_json_and_output_json_are_the_same(log: Path) -> None:
    assert run("cat", "--json", log).stdout == run("cat", log, "-o", "json").ok().stdout


def test_raw_without_delimiter_is_the_payloads_and_nothing_else(log: Path) -> None:
    with aof2.open(log) as reader:
        payloads = [bytes(record) for record in reader.scan()]
    raw = run("cat", log, "--output", "raw", "--delimiter", "").ok()
    assert raw.stdout == b"".join(payloads)
    null = run("cat", log, "--output", "raw", "--delimiter", "\\0").ok()
    assert null.stdout == b"".join(payload + b"\0" for payload in payloads)


def test_json_says_how_the_payload_is_encoded(log: Path) -> None:
    records = run("cat", "--json", log).ok().lines()
    assert [r["payload_encoding"] for r in records] == ["text"] * 2 + ["base64"] + ["text"] * 3
    assert base64.b64decode(records[2]["payload"]) == b"\x00\x01binary\xff"
    assert records[4]["payload"] == "two\nlines"
    assert [r["timestamp_ms"] for r in records] == [FIRST_MS + n * 1000 for n in range(6)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["--from", "earliest", "--to", "latest"], [0, 1, 2, 3, 4, 5]),
        (["--from", "4"], [4, 5]),
        (["--from", "6"], []),
        (["--from", "latest"], []),
        (["--to", "2"], [0, 1]),
        (["--from", "2", "--to", "4"], [2, 3]),
        (["--from", "4", "--to", "2"], []),
        (["-n", "2"], [0, 1]),
        (["-n", "0"], []),
        (["--from", "3", "-n", "100"], [3, 4, 5]),
        (["--from", "2026-01-01T00:00:02Z", "--to", "2026-01-01T00:00:04"], [2, 3]),
        (["--from", "2026-01-01T02:00:04.001+02:00"], [5]),
        (["--from", "2025-12-31"], [0, 1, 2, 3, 4, 5]),
        (["--to", "2025-12-31"], []),
        (["--from", "now"], []),
    ],
)
def test_ranges_by_offset_and_time(log: Path, arguments: list[str], expected: list[int]) -> None:
    assert offsets(run("cat", "--json", log, *arguments)) == expected


def test_ranges_by_record_id(log: Path) -> None:
    ids = [record["id"] for record in run("cat", "--json", log).ok().lines()]
    assert offsets(run("cat", "--json", log, "--from", ids[2], "--to", ids[4])) == [2, 3]


def test_ages_are_counted_from_now(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    with aof2.Aof.open(tmp_path / "ages") as log:
        for hours in (30, 20, 10):
            ms = int((now - timedelta(hours=hours)).timestamp() * 1000)
            log.append(b"x", timestamp_ms=ms)
    assert offsets(run("cat", "--json", tmp_path / "ages", "--from", "-1d")) == [1, 2]
    assert offsets(run("cat", "--json", tmp_path / "ages", "--to", "-1d")) == [0]


@settings(UNHURRIED, max_examples=30)
@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=12), st.integers(0, 5_000))
def test_a_time_splits_a_log_into_what_came_before_and_after(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], at: int
) -> None:
    path = tmp_path_factory.mktemp("split") / "log"
    times = sorted(FIRST_MS + step for step in steps)
    with aof2.Aof.open(path, segment_bytes=1 << 16) as log:
        for ms in times:
            log.append(b"x", timestamp_ms=ms)
    when = iso(FIRST_MS + at)
    before = offsets(run("cat", "--json", path, "--to", when))
    after = offsets(run("cat", "--json", path, "--from", when))
    assert before == [n for n, ms in enumerate(times) if ms < FIRST_MS + at]
    assert before + after == list(range(len(times)))


@pytest.mark.parametrize(("count", "expected"), [(0, []), (2, [4, 5]), (100, [0, 1, 2, 3, 4, 5])])
def test_tail_prints_the_last(log: Path, count: int, expected: list[int]) -> None:
    assert offsets(run("tail", "--json", "-n", count, log)) == expected


def test_tail_prints_ten_unless_told(tmp_path: Path) -> None:
    make_log(tmp_path / "many", [str(n).encode() for n in range(25)])
    assert run("tail", tmp_path / "many").ok().text.split() == [str(n) for n in range(15, 25)]


def test_damage_ends_cat_behind_what_is_intact(log: Path) -> None:
    flip(log, 2)
    result = run("cat", "--json", log)
    assert result.code == 5
    assert [line["offset"] for line in result.lines()] == [0, 1]
    error = result.error()
    assert error["kind"] == "corrupt"
    assert error["records"] == [2, 3]
    assert Path(error["path"]).exists()


def test_damage_can_be_skipped_and_is_still_told(log: Path) -> None:
    flip(log, 2)
    result = run("cat", "--json", log, "--skip-damage")
    assert result.code == 5
    assert [line["offset"] for line in result.lines()] == [0, 1, 3, 4, 5]
    assert result.error()["skipped"] == 1
    assert result.error()["ranges"] == [{"records": [2, 3], "reason": "damaged"}]
    assert "1 damaged record skipped: record 2" in run("cat", log, "--skip-damage").stderr
    tail = run("tail", "--json", log, "-n", "4", "--skip-damage")
    assert (tail.code, [line["offset"] for line in tail.lines()]) == (5, [3, 4, 5])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--json", "--output", "hex"],
        ["--delimiter", ","],
        ["--output", "json", "--meta"],
        ["--from", "someday"],
        ["--to", "earliest"],
        ["-n", "-1"],
    ],
)
def test_options_that_make_no_sense_are_usage_errors(log: Path, arguments: list[str]) -> None:
    result = run("cat", log, *arguments)
    assert (result.code, result.stdout) == (1, b"")
    assert "error" in result.stderr
