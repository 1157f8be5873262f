"""verify finds damage, repair says exactly what it gave up."""

import json
import shutil
from pathlib import Path

import aof2
import pytest
from cli_support import UNHURRIED, check_golden, flip, make_log, normal, run
from hypothesis import given, settings
from hypothesis import strategies as st


def test_a_healthy_log_verifies(log: Path, tmp_path: Path) -> None:
    check_golden("verify-healthy", normal(run("verify", log).ok().text, tmp_path))
    report = run("verify", "--json", log).ok().json()
    assert report["is_healthy"] is True
    assert report["problems"] == []
    assert report["record_count"] == 6


def test_damage_is_shown_with_its_place_and_exit_code(log: Path, tmp_path: Path) -> None:
    flip(log, 2)
    result = run("verify", log)
    assert (result.code, result.stderr) == (5, "")
    check_golden("verify-damaged", normal(result.text, tmp_path))
    as_json = run("verify", "--json", log)
    assert as_json.code == 5
    report = as_json.json()
    assert report["is_healthy"] is False
    damages = [p for p in report["problems"] if p["severity"] == "damage"]
    assert damages[0]["records"] == [2, 3]


def test_a_dry_run_is_verify(log: Path) -> None:
    assert run("repair", "--dry-run", log).ok().text == run("verify", log).text
    flip(log, 3)
    dry, verified = run("repair", "--dry-run", log), run("verify", log)
    assert (dry.code, dry.text) == (5, verified.text)
    assert not (log / "quarantine").exists()


def test_a_healthy_log_is_left_alone_without_asking(log: Path) -> None:
    result = run("repair", log).ok()
    assert result.text.startswith("nothing to repair; healthy: 6 records")
    report = run("repair", "--json", log).ok().json()
    assert (report["lost"], report["actions"]) == ([], [])


def test_repair_does_nothing_unasked_without_a_terminal(log: Path) -> None:
    flip(log, 2)
    result = run("repair", log)
    assert result.code == 1
    assert "--yes" in result.stderr
    assert not (log / "quarantine").exists()
    assert run("verify", log).code == 5


def test_repair_says_what_is_lost_and_the_rest_is_readable(log: Path, tmp_path: Path) -> None:
    flip(log, 2)
    result = run("repair", "--yes", log).ok()
    check_golden("repair", normal(result.text, tmp_path))
    assert [line["offset"] for line in run("cat", "--json", log).ok().lines()] == [0, 1, 3, 4, 5]
    verified = run("verify", log).ok()
    assert "given up by an earlier repair: record 2" in verified.text


def test_repair_as_json_names_the_records(log: Path) -> None:
    flip(log, 2)
    report = run("repair", "--yes", "--json", log).ok().json()
    assert [lost["records"] for lost in report["lost"]] == [[2, 3]]
    assert report["verify"]["is_healthy"] is True
    assert len(report["quarantined"]) == 1


@pytest.mark.parametrize("command", ["cat", "tail", "export"])
def test_reading_a_repaired_log_warns_about_what_is_missing(
    log: Path, tmp_path: Path, command: str
) -> None:
    """Gaps were passed over without a word."""
    target = {"cat": [], "tail": [], "export": [tmp_path / "all.jsonl"]}[command]
    assert run(command, log, *target).ok().stderr == ""
    flip(log, 2)
    run("repair", "--yes", log).ok()
    told = "1 record missing, lost before the log was repaired: record 2"
    result = run(command, log, *target, *(["--force"] if target else [])).ok()
    assert result.stderr == f"warning: {told}\n"
    # JSON stays JSON, on both streams.
    result = run(command, "--json", log, *target, *(["--force"] if target else [])).ok()
    (line,) = result.stderr.splitlines()
    assert json.loads(line) == {
        "warning": {
            "kind": "lost",
            "message": told,
            "skipped": 1,
            "lost": 1,
            "ranges": [{"records": [2, 3], "reason": "lost"}],
        }
    }
    if target:
        assert (result.json()["skipped"], result.json()["lost"]) == (1, 1)
    # What was asked for is whole.
    if command == "cat":
        assert run("cat", log, "--from", "3").ok().stderr == ""
        assert run("cat", log, "-n", "2").ok().stderr == ""


def test_export_to_parquet_warns_too(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    flip(log, 2)
    run("repair", "--yes", log).ok()
    result = run("export", log, tmp_path / "all.parquet").ok()
    assert "lost before the log was repaired: record 2" in result.stderr


def test_damage_and_gaps_are_told_apart(log: Path) -> None:
    flip(log, 2)
    run("repair", "--yes", log).ok()
    flip(log, 4)
    result = run("cat", log, "--skip-damage")
    assert result.code == 5
    assert "1 damaged record skipped: record 4; 1 record missing, lost" in result.stderr
    error = run("cat", "--json", log, "--skip-damage").error()
    assert (error["skipped"], error["lost"]) == (2, 1)


@settings(UNHURRIED, max_examples=25)
@given(st.data())
def test_repair_loses_the_damaged_records_and_no_others(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("repair") / "log"
    count = data.draw(st.integers(1, 12))
    sealed = data.draw(st.sets(st.integers(0, count - 1), max_size=4))
    make_log(path, [b"payload %d" % n for n in range(count)], seal_after=sorted(sealed))
    damaged = data.draw(st.sets(st.integers(0, count - 1), min_size=1))

    for offset in damaged:
        flip(path, offset)
    shown = run("verify", "--json", path)
    assert shown.code == 5
    report = run("repair", "--yes", "--json", path).ok().json()
    lost = [n for item in report["lost"] for n in range(*item["records"])]
    assert lost == sorted(damaged)
    left = run("cat", "--json", path).ok().lines()
    assert [line["offset"] for line in left] == [n for n in range(count) if n not in damaged]
    assert all(line["payload"] == f"payload {line['offset']}" for line in left)


def test_a_missing_segment_is_found_and_replaced(log: Path) -> None:
    Path(run("segments", "--json", log).ok().lines()[1]["path"]).unlink()
    assert run("verify", log).code == 5
    report = run("repair", "--yes", "--json", log).ok().json()
    assert [lost["records"] for lost in report["lost"]] == [[2, 4]]
    assert run("verify", log).code == 0


def test_a_foreign_file_is_damage_and_repair_moves_it(log: Path, tmp_path: Path) -> None:
    other = make_log(tmp_path / "other", [b"x"])
    theirs = Path(run("segments", "--json", other).ok().lines()[0]["path"])
    ours = [Path(s["path"]) for s in run("segments", "--json", log).ok().lines()]
    shutil.copy(theirs, ours[-1].with_name(theirs.name.replace("_", "9_", 1)[1:]))
    result = run("verify", "--json", log)
    assert result.code == 5
    run("repair", "--yes", log).ok()
    with aof2.open(log) as reader:
        assert sum(1 for _ in reader.scan()) == 6
