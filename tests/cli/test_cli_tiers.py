"""tiers, evict and hydrate: what is where, and moving it."""

import re
from pathlib import Path
from typing import Any

import aof2
import pytest
from aof2.cli.units import human_bytes
from cli_support import (
    FIRST_MS,
    check_golden,
    flip,
    make_log,
    normal,
    on_terminal,
    run,
    running_writer,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three sealed segments of 50 records, and one record in an unsealed one."""
    payloads = [b"record %04d, and words that come again and again" % n * 3 for n in range(151)]
    return make_log(tmp_path / "events", payloads, seal_after=(49, 99, 149))


def residencies(log: Path) -> list[str]:
    with aof2.open(log) as reader:
        return [segment.residency for segment in reader.segments()]


def stable(text: str, log: Path) -> str:
    """Output without what depends on the version of zstd, and on times inside segments."""
    warm = [file.stat().st_size for file in (log / "warm").glob("*.zst")]
    hot = sum(s["used_bytes"] for s in segments(log) if s["residency"] == "hot")
    for size in {*warm, sum(warm), sum(warm) + hot} - {hot}:
        text = text.replace(human_bytes(size), "SIZE")
    text = re.sub(r"\d+\.\dx", "RATIO", text)
    text = re.sub(r'("warm_bytes"|"stored_bytes"):\d+', r"\1:0", text)
    return normal(text, log.parent)


def segments(log: Path) -> list[Any]:
    return run("segments", "--json", log).ok().lines()


def without_times(text: str) -> str:
    return "".join("\t".join(line.split("\t")[:-2]) + "\n" for line in text.splitlines())


def test_what_is_where_is_as_stored(log: Path) -> None:
    check_golden("tiers-hot", stable(run("tiers", log).ok().text, log))
    check_golden("evict", stable(run("evict", log, 0, 1).ok().text, log))
    check_golden("tiers", stable(run("tiers", log).ok().text, log))
    check_golden("tiers-json", stable(run("tiers", "--json", log).ok().text, log))
    check_golden("segments-warm", stable(without_times(run("segments", log).ok().text), log))
    check_golden("info-warm", stable(run("info", log).ok().text, log))
    check_golden("hydrate", stable(run("hydrate", log, 1, 0).ok().text, log))
    assert residencies(log) == ["hot"] * 4


def test_moves_as_json(log: Path) -> None:
    evicted = run("evict", "--json", log, 2, 0, 2).ok().json()
    assert [s["segment_id"] for s in evicted["segments"]] == [0, 2]
    assert {s["residency"] for s in evicted["segments"]} == {"warm"}
    assert evicted["moved_bytes"] == sum(s["used_bytes"] for s in evicted["segments"])
    assert evicted["warm_bytes"] == sum(s["warm_bytes"] for s in evicted["segments"])
    files = sorted((log / "warm").glob("*.zst"))
    assert [file.stat().st_size for file in files] == [s["warm_bytes"] for s in evicted["segments"]]
    back = run("hydrate", "--json", log, 2).ok().json()
    assert (back["segment_count"], back["segments"][0]["residency"]) == (1, "hot")
    totals = run("tiers", "--json", log).ok().json()
    assert (totals["hot_count"], totals["warm_count"], totals["copy_count"]) == (3, 1, 2)
    assert totals["stored_bytes"] == totals["hot_bytes"] + totals["warm_bytes"]
    info = run("info", "--json", log).ok().json()
    assert (info["hot_count"], info["warm_count"]) == (3, 1)
    assert info["warm_bytes"] == evicted["warm_bytes"]
    assert info["file_bytes"] == 3 << 16


def test_all_moves_all_that_are_sealed_and_reading_does_not_notice(log: Path) -> None:
    before = run("cat", "--json", log).ok().stdout
    assert run("evict", log, "--all").ok().text.count("\n") == 5
    assert residencies(log) == ["warm", "warm", "warm", "hot"]
    assert run("evict", log, "--all").ok().text == (
        "nothing to evict: no such sealed segment is hot\n"
    )
    assert run("cat", "--json", log).ok().stdout == before
    assert run("tail", log, "-n", "1").ok().text.startswith("record 0150")
    some = run("cat", "--json", log, "--from", "2026-01-01T00:01:10Z", "-n", "1").ok().json()
    assert (some["offset"], some["timestamp_ms"]) == (70, FIRST_MS + 70_000)
    run("append", log, "more").ok()
    run("hydrate", log, "--all").ok()
    assert set(residencies(log)) == {"hot"}
    assert run("hydrate", log, "--all").ok().text == (
        "nothing to bring back: no such segment is warm or cold only\n"
    )
    assert run("cat", "--json", log, "--to", "151").ok().stdout == before


@pytest.mark.parametrize("name", ["evict", "hydrate"])
def test_segments_that_are_not_there_move_nothing(log: Path, name: str) -> None:
    before = residencies(log)
    for segment_id in (3, 9):  # unsealed, unknown
        result = run(name, "--json", log, 0, segment_id)
        assert result.code == 2
        error = result.error()
        assert (error["kind"], error["segment_id"]) == ("no_such_segment", segment_id)
    assert residencies(log) == before


@pytest.mark.parametrize("name", ["evict", "hydrate"])
def test_moves_that_make_no_sense(log: Path, tmp_path: Path, name: str) -> None:
    for arguments in ([log], [log, "0", "--all"], [log, "-1"], [log, "first"]):
        result = run(name, *arguments)
        assert (result.code, result.stdout) == (1, b"")
        assert result.stderr.startswith("error: ")
    result = run(name, "--json", tmp_path / "missing", "0")
    assert (result.code, result.error()["kind"]) == (2, "not_a_log")
    assert not (tmp_path / "missing").exists()


def test_a_running_writer_keeps_its_segments_and_can_be_looked_at(log: Path) -> None:
    with running_writer(log) as writer:
        writer.write(b"hello\n")
        writer.line()
        for name in ("evict", "hydrate"):
            result = run(name, "--json", log, 0)
            assert (result.code, result.error()["kind"]) == (4, "locked")
        assert run("tiers", "--json", log).ok().json()["hot_count"] == 4


def test_a_segment_that_cannot_be_compressed_is_told_and_stays(log: Path) -> None:
    flip(log, 60)
    result = run("evict", "--json", log, "--all")
    assert (result.code, result.error()["kind"]) == (5, "corrupt")
    assert "1 segment moved before that" in result.error()["message"]
    assert residencies(log)[:2] == ["warm", "hot"]
    assert not list((log / "warm").glob("*.tmp"))


def test_a_terminal_shows_tables_and_how_far_it_is(log: Path) -> None:
    shown = on_terminal("evict", log, "--all").ok().text
    assert "compressing" in shown
    assert "3 segments left the hot tier" in shown
    assert "ratio" in on_terminal("tiers", log).ok().text


def test_pins_last_until_they_are_removed(log: Path) -> None:
    run("evict", log, "--all").ok()
    assert run("pin", log, 1).ok().text == "1 segment pinned, 1 segment pinned now\n"
    assert residencies(log) == ["warm", "hot", "warm", "hot"]
    assert run("pin", "--json", log, 0, 1).ok().json() == {"changed_count": 1, "pinned_count": 2}
    assert run("pin", "--remove", log, 0, 2).ok().text == (
        "1 segment unpinned, 1 segment pinned now\n"
    )
    result = run("pin", "--json", log, 9)
    assert (result.code, result.error()["kind"]) == (2, "no_such_segment")
    assert run("pin", log).code == 1


def damage(file: Path) -> None:
    """Flip a byte in the first frame of a compressed segment."""
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)


def test_a_scrub_heals_a_compressed_copy_from_the_file(log: Path) -> None:
    run("evict", log, 0, 1).ok()
    run("hydrate", log, 0).ok()
    assert run("scrub", log).ok().text.startswith("clean: 4 copies of 3 segments, ")
    damage(sorted((log / "warm").glob("*.zst"))[0])
    looked = run("scrub", "--no-heal", "--tier", "warm", "--json", log)
    assert looked.code == 5
    found = looked.json()
    assert [f["outcome"] for f in found["findings"]] == ["damaged"]
    assert (found["findings"][0]["segment_id"], found["findings"][0]["tier"]) == (0, "warm")
    assert run("scrub", log).ok().text.splitlines()[1].split("\t")[:3] == ["0", "warm", "healed"]
    assert any((log / "quarantine").iterdir())
    assert run("scrub", log).ok().text.startswith("clean: ")
    run("verify", log).ok()


def test_a_scrub_says_what_it_cannot_heal(log: Path) -> None:
    run("evict", log, 0).ok()
    damage(sorted((log / "warm").glob("*.zst"))[0])
    result = run("scrub", "--json", log)
    assert result.code == 5
    [finding] = result.json()["findings"]
    assert (finding["outcome"], finding["healed_from"]) == ("needs_repair", None)
    assert finding["unreadable"] == [[0, 50]]


def test_an_upload_needs_to_know_where_to(log: Path) -> None:
    result = run("upload", "--json", log, "--all")
    assert result.code == 1
    assert "--cold" in str(result.error())
    result = run("upload", "--json", log, "--all", "--cold", "bucket")
    assert (result.code, result.error()["kind"]) == (1, "invalid_config")


def test_a_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOF2_COLD_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AOF2_COLD_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AOF2_COLD_SECRET_ACCESS_KEY", "nothing")
    result = run("info", "--json", "s3://bucket/logs/events")
    assert result.code == 4
    error = result.error()
    assert (error["kind"], error["operation"]) == ("cold_unavailable", "head")
    assert "AOF2_COLD_ENDPOINT" in error["hint"]
    assert "DispatchFailure" not in error["message"]
