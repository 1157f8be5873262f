"""On a terminal: tables, colour, questions. Elsewhere: none of it."""

import io
import re
from pathlib import Path

import aof2
import pytest
from aof2.cli import verify_report
from aof2.cli.commands import segments, top
from aof2.cli.tables import rich_table
from cli_support import ANSI, environment, flip, make_log, on_terminal, run, spawn, terminal
from rich.console import Console
from screen import Screen


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


@pytest.fixture
def wide_log(tmp_path: Path) -> Path:
    """One with long numbers and a long name."""
    path = tmp_path / "a-log-with-quite-a-name"
    with aof2.Aof.open(path, segment_bytes=1 << 20) as log:
        for _ in range(3):
            log.append_many([b"%09d" % n for n in range(15_000)])
            log.seal()
    return path


def test_a_narrow_terminal_shows_numbers_whole_and_marks_what_it_leaves_out(
    wide_log: Path,
) -> None:
    """At 40 columns `segments` showed 15,0 for 15,000, and `top` no name at 50."""
    shown = plain(on_terminal("segments", wide_log, columns=40).ok().text).splitlines()
    titles, first = shown[2].split(), shown[4].split()
    assert titles == ["segment", "offset", "records", "used", "…"]
    assert first == ["0", "0", "15,000", "703.2", "KiB"]
    options = ("--count", "1", "--interval", "0.01")
    shown = plain(on_terminal("top", *options, wide_log, columns=50).ok().text).splitlines()
    (row,) = {line for line in shown if "45,000" in line}
    assert row.split()[0].startswith("a-log-with-")
    assert row.split()[0].endswith("…")
    assert any(line.rstrip().endswith("records/s  …") for line in shown)


TABLES = {
    "segments": (
        segments.COLUMNS,
        ("12", "sealed", "warm", "1,234,567", "15,000", "703.2 KiB", "1 MiB", "142.9 KiB")
        + ("2026-01-31T12:00:00.123Z",) * 2,
    ),
    "top": (
        top.COLUMNS,
        ("a-log-with-quite-a-name", "4711", "45,001", "45,000", "1", "12", "1.2 KiB", "3", "9 B"),
    ),
    "verify": (
        verify_report.COLUMNS,
        ("damage", "record", "records 12 to 17", "0" * 50 + ".seg", "4,096", "some words " * 9),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_and_whatever_it_cuts_has_a_mark(name: str) -> None:
    columns, row = TABLES[name]
    for width in range(10, 160):
        terminal = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True)
        terminal.print(rich_table(columns, [row], width))
        assert isinstance(terminal.file, io.StringIO)
        lines = terminal.file.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        rule = next(number for number, line in enumerate(lines) if "──" in line)
        shown = " ".join(lines[rule + 1].split())
        whole = {
            column.cell(value)
            for column, value in zip(columns, row, strict=True)
            if column.is_number or column.is_time
        }
        is_cut = "…" in shown
        # Nothing that looks like a number is only a part of one.
        for value in re.findall(r"(?<![\w:-])[\d,.]{2,}(?![\w…:-])", shown):
            is_known = any(value in text.split() for text in whole | {"4711"})
            assert is_cut or is_known or name == "verify", (width, shown)
        titles = " ".join(" ".join(lines[:rule]).split())
        is_complete = all(word in titles for column in columns for word in column.title().split())
        assert is_complete or "…" in titles, (width, titles)


def test_top_leaves_nothing_behind_when_the_terminal_gets_narrower(wide_log: Path) -> None:
    with terminal("top", "--interval", "0.05", wide_log, columns=100) as shown:
        screen = Screen(100)
        name = " a-log-with-"
        shown.feed_until(screen, lambda: any(line.startswith(name) for line in screen.lines()))
        shown.resize(50)
        screen.resize(50)

        def is_drawn_alone() -> bool:
            lines = screen.lines()
            return len(lines) == 3 and lines[0].endswith(" …") and lines[2].startswith(name)

        shown.feed_until(screen, is_drawn_alone)


def test_json_on_a_terminal_is_still_json(log: Path) -> None:
    shown = on_terminal("info", "--json", log, columns=40).ok()
    assert shown.json()["record_count"] == 6


def test_verify_shows_a_verdict_and_leaves_no_progress_bar(log: Path) -> None:
    shown = on_terminal("verify", log).ok().text
    assert "healthy: 6 records in 3 segments" in plain(shown)


def test_scrub_counts_segments_and_not_bytes(log: Path) -> None:
    shown = plain(on_terminal("scrub", log, columns=100).ok().text)
    assert "2/2 segments" in shown
    assert "clean: 2 copies of 2 segments" in shown


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
