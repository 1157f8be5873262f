"""On a terminal: tables, colour, questions. Elsewhere: none of it."""

from pathlib import Path

import aof2
import pytest
from cli_support import ANSI, environment, flip, make_log, on_terminal, run, spawn


def plain(shown: str) -> str:
    return ANSI.sub("", shown)


def test_tables_are_drawn_on_a_terminal_and_not_in_a_pipe(log: Path) -> None:
    shown = on_terminal("segments", log, columns=140).ok().text
    assert "\x1b[" in shown
    assert "───" in shown
    assert "first offset" in plain(shown)
    piped = spawn("segments", log).ok().text
    assert "\x1b" not in piped
    assert "─" not in piped
    assert len(piped.splitlines()) == 4


def test_info_is_aligned_on_a_terminal(log: Path) -> None:
    shown = plain(on_terminal("info", log, columns=200).ok().text).splitlines()
    values = {line.split("  ", 1)[0].strip(): line for line in shown if line.strip()}
    assert {"path", "records", "durable", "health"} <= set(values)
    assert values["records"].index("6") == values["durable"].index("offset")


@pytest.mark.parametrize("change", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(log: Path, change: dict[str, str]) -> None:
    for command in ("info", "segments"):
        shown = on_terminal(command, log, env=environment(**change)).ok().text
        assert "\x1b[" not in shown


def test_colour_cannot_be_forced_into_a_pipe(log: Path) -> None:
    for command in ("info", "segments", "verify"):
        assert b"\x1b" not in spawn(command, log, env=environment(FORCE_COLOR="1")).ok().stdout


def test_long_rows_are_not_wrapped_in_a_pipe(tmp_path: Path) -> None:
    log = make_log(tmp_path / ("long-" * 40), [b"x" * 5000])
    for env in (environment(COLUMNS="40"), environment()):
        assert len(spawn("cat", log, env=env).ok().text.splitlines()) == 1
        assert len(spawn("segments", log, env=env).ok().text.splitlines()) == 2
        assert len(spawn("info", log, env=env).ok().text.splitlines()) == 10


def test_numbers_are_whole_on_a_narrow_terminal(log: Path) -> None:
    shown = plain(on_terminal("segments", log, columns=60).ok().text)
    assert "64 KiB" in shown


def test_json_on_a_terminal_is_still_json(log: Path) -> None:
    shown = on_terminal("info", "--json", log, columns=40).ok()
    assert shown.json()["record_count"] == 6


def test_verify_shows_a_verdict_and_leaves_no_progress_bar(log: Path) -> None:
    shown = on_terminal("verify", log).ok().text
    assert "healthy: 6 records in 3 segments" in plain(shown)


def test_repair_asks_and_does_as_told(log: Path) -> None:
    flip(log, 2)
    refused = on_terminal("repair", log, answer=b"n\n")
    assert refused.code == 5
    assert "and give up record 2? [y/N]" in plain(refused.text)
    assert "error: not repaired; nothing was changed" in plain(refused.text)
    assert not (log / "quarantine").exists()
    agreed = on_terminal("repair", log, answer=b"y\n")
    assert agreed.code == 0
    assert "repaired, 1 record lost" in plain(agreed.text)
    assert run("verify", log).code == 0


def test_repair_with_yes_does_not_ask(log: Path) -> None:
    flip(log, 2)
    assert "[y/N]" not in on_terminal("repair", "--yes", log).ok().text


def test_an_end_of_input_at_the_question_changes_nothing(log: Path) -> None:
    flip(log, 2)
    assert on_terminal("repair", log, answer=b"\x04").code != 0
    assert not (log / "quarantine").exists()


def test_an_interrupt_at_the_question_ends_with_130(log: Path) -> None:
    flip(log, 2)
    assert on_terminal("repair", log, answer=b"\x03").code == 130
    assert not (log / "quarantine").exists()


def test_payloads_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "log") as log:
        log.append(b"\x1b[2J\x1b]0;title\x07\x9b31m\xc2\x9b31m")
    path = tmp_path / "log"
    for arguments in (["cat", path], ["tail", path], ["cat", path, "-o", "hex"]):
        shown = on_terminal(*arguments, env=environment(NO_COLOR="1")).ok().stdout
        assert b"\x1b" not in shown
        assert b"\xc2\x9b" not in shown


def test_top_draws_a_table_that_is_updated(log: Path) -> None:
    shown = on_terminal("top", "--count", "3", "--interval", "0.01", log, columns=160).ok().text
    assert "records/s" in plain(shown)
    assert plain(shown).count("closed") >= 1


def test_top_breaks_no_word_on_a_terminal_of_eighty_columns(log: Path) -> None:
    options = ("--count", "1", "--interval", "0.01")
    shown = plain(on_terminal("top", *options, log, columns=80).ok().text)
    row = next(line.split() for line in shown.splitlines() if "closed" in line)
    assert row[:4] == ["events", "closed", "6", "6"]
    assert {"log", "writer", "appended", "durable", "records/s", "bytes/s"} <= set(shown.split())
    wide = plain(on_terminal("top", *options, log, columns=120).ok().text)
    assert "not durable" in wide
    assert "segments" in wide


def test_bench_draws_a_table(tmp_path: Path) -> None:
    options = ("--data-bytes", "64k", "--durable-count", "2", "--rounds", "1")
    shown = plain(on_terminal("bench", tmp_path, *options, columns=160).ok().text)
    assert "durable append" in shown
    assert list(tmp_path.iterdir()) == []
