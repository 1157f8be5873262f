"""append, seal and trim change what they say they change."""

from pathlib import Path

import aof2
import pytest
from cli_support import FIRST_MS, UNHURRIED, check_golden, flip, make_log, normal, run
from hypothesis import given, settings
from hypothesis import strategies as st


def payloads(path: Path) -> list[bytes]:
    with aof2.open(path) as log:
        return [bytes(record) for record in log.scan()]


def test_arguments_become_records_and_the_log_is_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events"
    result = run("append", path, "hello", "world").ok()
    assert result.text == "appended 2 records at offset 0 to 1, durable\n"
    assert run("append", path, "again").ok().text == "appended 1 record at offset 2, durable\n"
    assert payloads(path) == [b"hello", b"world", b"again"]


def test_append_as_json(tmp_path: Path) -> None:
    result = run("append", "--json", tmp_path / "log", "a", "b").ok()
    assert result.json() == {"record_count": 2, "first_offset": 0, "next_offset": 2}


def test_ids_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "log"
    lines = run("append", "--json", "--ids", path, "a", "b").ok().lines()
    assert [line["offset"] for line in lines] == [0, 1]
    plain = run("append", "--ids", "--durable", path, "c").ok().text.split()
    with aof2.open(path) as log:
        read = [bytes(log.read(aof2.RecordId.parse(line["id"]))) for line in lines]
        assert [*read, bytes(log.read(aof2.RecordId.parse(plain[1])))] == [b"a", b"b", b"c"]


def test_lines_of_stdin_become_records(tmp_path: Path) -> None:
    run("append", tmp_path / "log", stdin=b"one\ntwo\r\n\xff\x00\nlast without newline").ok()
    assert payloads(tmp_path / "log") == [b"one", b"two\r", b"\xff\x00", b"last without newline"]


@settings(UNHURRIED, max_examples=40)
@given(
    st.lists(st.binary(min_size=1, max_size=300).map(lambda b: b.replace(b"\n", b"x"))),
    st.booleans(),
)
def test_any_lines_come_back(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], ends: bool
) -> None:
    path = tmp_path_factory.mktemp("lines") / "log"
    stdin = b"\n".join(lines) + (b"\n" if ends and lines else b"")
    run("append", path, stdin=stdin).ok()
    assert payloads(path) == lines


def test_lines_longer_than_a_read_are_one_record(tmp_path: Path) -> None:
    lines = [b"a" * 200_000, b"b", b"c" * 65_536, b"d" * 65_535]
    run("append", tmp_path / "log", stdin=b"\n".join(lines)).ok()
    assert payloads(tmp_path / "log") == lines


def test_nul_may_end_lines(tmp_path: Path) -> None:
    run("append", "-0", tmp_path / "log", stdin=b"one\nrecord\0two\0").ok()
    assert payloads(tmp_path / "log") == [b"one\nrecord", b"two"]


def test_files_by_line_and_whole(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"1\n2\n")
    second.write_bytes(b"3\n4")
    run("append", tmp_path / "lines", "-f", first, "-f", "-", "-f", second, stdin=b"and\n").ok()
    assert payloads(tmp_path / "lines") == [b"1", b"2", b"and", b"3", b"4"]
    run("append", tmp_path / "whole", "--whole", "-f", first, "-f", second).ok()
    assert payloads(tmp_path / "whole") == [b"1\n2\n", b"3\n4"]


def test_timestamp_and_flags_are_stored(tmp_path: Path) -> None:
    run("append", tmp_path / "log", "x", "--timestamp", "2026-01-01", "--flags", "1").ok()
    with aof2.open(tmp_path / "log") as log:
        record = log.read_offset(0)
        assert (record.timestamp_ms, record.flags) == (FIRST_MS, 1)


def test_an_empty_line_fails_behind_those_before_it(tmp_path: Path) -> None:
    result = run("append", "--json", tmp_path / "log", stdin=b"one\ntwo\n\nfour\n")
    assert result.code == 1
    error = result.error()
    assert error["kind"] == "invalid_record"
    assert "stdin, line 3 is empty" in error["message"]
    assert "2 records appended" in error["message"]
    assert payloads(tmp_path / "log") == [b"one", b"two"]


def test_empty_lines_can_be_skipped(tmp_path: Path) -> None:
    run("append", "--skip-empty", tmp_path / "log", stdin=b"\none\n\n\ntwo\n\n").ok()
    assert payloads(tmp_path / "log") == [b"one", b"two"]


def test_nothing_to_append_is_no_failure(tmp_path: Path) -> None:
    result = run("append", tmp_path / "log").ok()
    assert (result.stdout, result.stderr) == (b"", "nothing to append\n")


def test_an_unreadable_file_leaves_no_new_log(tmp_path: Path) -> None:
    result = run("append", tmp_path / "log", "-f", tmp_path / "missing")
    assert result.code == 2
    assert not (tmp_path / "log").exists()


def test_no_create_means_none_is_made(tmp_path: Path) -> None:
    assert run("append", "--no-create", tmp_path / "log", "x").code == 2
    assert not (tmp_path / "log").exists()


def test_name_layout_and_segment_size_of_a_new_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    options = ("--name", "orders", "--layout", "compact", "--segment-bytes", "64k")
    run("append", path, "x", *options).ok()
    facts = run("info", "--json", path).ok().json()
    assert (facts["name"], facts["layout"]) == ("orders", "compact")
    assert run("segments", "--json", path).ok().lines()[0]["file_bytes"] == 64 << 10


@pytest.mark.parametrize(
    "arguments", [["x", "-f", "y"], ["x", "--whole"], ["x", "--null"], ["x", "--flags", "-1"]]
)
def test_arguments_that_exclude_each_other(tmp_path: Path, arguments: list[str]) -> None:
    assert run("append", tmp_path / "log", *arguments).code == 1
    assert not (tmp_path / "log").exists()


def test_a_payload_that_fits_no_segment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    result = run("append", path, "--segment-bytes", "64k", stdin=b"x" * 100_000)
    assert result.code == 1
    assert result.stderr.startswith("error: invalid record")


def test_seal_gives_the_segment_its_footer(tmp_path: Path) -> None:
    path = make_log(tmp_path / "log", [b"a", b"b"])
    result = run("seal", "--json", path, "--ext-id", "42").ok().json()
    assert [(s["segment_id"], s["record_count"], s["ext_id"]) for s in result["sealed"]] == [
        (0, 2, 42)
    ]
    assert run("segments", "--json", path).ok().lines()[0]["is_sealed"] is True
    assert run("seal", path).ok().text == "nothing to seal: no record since the last one\n"
    run("append", path, "c").ok()
    assert run("seal", path).ok().text.startswith("sealed segment 1: 1 record, ")


def test_trim_before_an_offset_is_as_stored(log: Path, tmp_path: Path) -> None:
    dry = run("trim", log, "--before", "3", "--dry-run").ok()
    check_golden("trim-dry-run", normal(dry.text, tmp_path))
    assert len(payloads(log)) == 6
    check_golden("trim", normal(run("trim", log, "--before", "3").ok().text, tmp_path))
    assert run("cat", "--json", log).ok().lines()[0]["offset"] == 2


def test_trim_by_time_and_age(log: Path) -> None:
    by_time = run("trim", "--json", "--dry-run", log, "--before", "2026-01-01T00:00:02Z").ok()
    assert by_time.json()["earliest_offset"] == 2
    by_age = run("trim", "--json", "--dry-run", log, "--older-than", "1s").ok()
    assert by_age.json()["earliest_offset"] == 4
    # Nothing is a hundred years old.
    kept = run("trim", "--json", "--dry-run", log, "--older-than", "5200w").ok()
    assert kept.json()["segments"] == []


def test_trim_by_age_says_that_a_segment_of_the_future_stays(tmp_path: Path) -> None:
    """It stayed, and all behind it, without a word."""
    path = tmp_path / "log"
    with aof2.Aof.open(path) as log:
        for ms in (FIRST_MS, 253_402_300_799_999, FIRST_MS, FIRST_MS):
            log.append(b"x", timestamp_ms=ms)
            log.seal()
    stays = "segment 1 stays: its newest timestamp, 9999-12-31T23:59:59.999Z, lies in the future"
    kept = {
        "segment_id": 1,
        "reason": "future_timestamp",
        "last_timestamp_ms": 253_402_300_799_999,
    }
    for dry_run in (["--dry-run"], []):
        as_json = run("trim", "--json", path, "--older-than", "1d", "--dry-run").ok().json()
        assert as_json["kept"] == kept
        lines = run("trim", path, "--older-than", "1d", *dry_run).ok().text.splitlines()
        assert lines[-1] == stays
    report = run("trim", "--json", path, "--before", "2", "--older-than", "1d").ok().json()
    assert report["kept"] == {
        **kept,
        "segment_id": 3,
        "reason": "newest",
        "last_timestamp_ms": FIRST_MS,
    }


def test_trim_can_archive(log: Path) -> None:
    report = run("trim", "--json", log, "--before", "latest", "--archive").ok().json()
    assert (report["action"], report["record_count"], report["earliest_offset"]) == (
        "archive",
        4,
        4,
    )
    assert len(list((log / "archive").iterdir())) == 2


def test_trim_says_when_nothing_goes(log: Path) -> None:
    result = run("trim", log, "--keep-bytes", "1G").ok()
    assert result.text.startswith("0 segments deleted: 0 records, 0 B")


@pytest.mark.parametrize(("too_few", "earliest"), [(0, 0), (1, 2), (160, 2), (161, 4)])
def test_trim_by_bytes_takes_no_more_than_it_must(log: Path, too_few: int, earliest: int) -> None:
    used = run("info", "--json", log).ok().json()["used_bytes"]
    limit = ("--keep-bytes", used - too_few)
    dry = run("trim", "--json", "--dry-run", log, *limit).ok().json()
    assert dry["earliest_offset"] == earliest
    assert run("trim", "--json", log, *limit).ok().json() == {**dry, "dry_run": False}


@pytest.mark.parametrize("damaged", [0, 1])
def test_trim_stops_at_a_damaged_segment(tmp_path: Path, damaged: int) -> None:
    log = make_log(tmp_path / "log", [b"x"] * 5, seal_after=(0, 1, 2, 3))
    file = Path(run("segments", "--json", log).ok().lines()[damaged]["path"])
    with file.open("r+b") as stream:
        stream.truncate(60_000)
    assert run("segments", "--json", log).ok().lines()[damaged]["damage"]
    dry = run("trim", "--json", "--dry-run", log, "--before", "latest").ok().json()
    assert dry["earliest_offset"] == damaged
    real = run("trim", "--json", log, "--before", "latest").ok().json()
    assert real == {**dry, "dry_run": False}


def test_trim_needs_a_limit(log: Path) -> None:
    assert run("trim", log).code == 1
    assert run("trim", log, "--older-than", "0s").code == 1
    assert len(payloads(log)) == 6


@settings(UNHURRIED, max_examples=40)
@given(data=st.data())
def test_a_dry_run_names_what_then_goes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """The dry run decides by itself; it must decide as retention does."""
    path = tmp_path_factory.mktemp("trim") / "log"
    count = data.draw(st.integers(1, 12))
    sealed = data.draw(st.sets(st.integers(0, count - 1), max_size=6))
    sizes = data.draw(st.lists(st.integers(1, 5_000), min_size=count, max_size=count))
    make_log(path, [b"x" * size for size in sizes], seal_after=sorted(sealed))
    if data.draw(st.booleans()):
        flip(path, data.draw(st.integers(0, count - 1)))
    limits: list[object] = []
    if data.draw(st.booleans()):
        limits += ["--before", data.draw(st.integers(0, count))]
    if data.draw(st.booleans()):
        limits += ["--keep-bytes", data.draw(st.integers(0, 30_000))]
    if not limits:
        limits = ["--older-than", "1d"]
    dry = run("trim", "--json", "--dry-run", path, *limits).ok().json()
    done = run("trim", "--json", path, *limits)
    if done.code == 5:  # damage in the unsealed end: no writer may open it
        return
    real = done.ok().json()
    assert {**dry, "dry_run": False} == real
