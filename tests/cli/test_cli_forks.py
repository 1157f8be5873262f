"""``aof2 fork``, ``snapshot``, ``drop``, ``detach``, ``tree`` and ``sweep``."""

import shutil
from pathlib import Path

import aof2
import pytest
from cli_support import check_golden, run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with the log events of five records, a second apart."""
    with aof2.Aof.open(tmp_path / "data" / "events") as log:
        for n in range(5):
            log.append(b"%d" % n, timestamp_ms=1_767_225_600_000 + n * 1_000)
    return tmp_path / "data"


def payloads(path: Path) -> list[bytes]:
    with aof2.open(path) as log:
        return [bytes(record) for record in log.scan()]


@pytest.mark.parametrize(
    ("at", "offset"),
    [
        ([], 5),
        (["--at", "2"], 2),
        (["--at", "0:64"], 0),
        (["--at", "2026-01-01T00:00:03"], 3),
        (["--at", "earliest"], 0),
        (["--at", "latest"], 5),
        (["--snapshot", "four"], 4),
    ],
)
def test_fork_at_every_kind_of_place(data: Path, at: list[str], offset: int) -> None:
    run("snapshot", data / "events", "four", "--at", 4).ok()
    told = run("fork", data / "events", data / "trial", *at).ok()
    assert told.text == f"forked events at offset {offset}: {data / 'trial'}\n"
    assert payloads(data / "trial") == [b"%d" % n for n in range(offset)]


def test_fork_as_json_and_its_errors(data: Path) -> None:
    made = run("fork", "--json", data / "events", data / "trial", "--at", 2).ok().json()
    with aof2.open(data / "trial") as log:
        assert made == {
            "name": "trial",
            "path": str(data / "trial"),
            "stream_id": f"{log.stream_id:016x}",
            "parent": "events",
            "offset": 2,
        }
    again = run("fork", "--json", data / "events", data / "trial")
    assert (again.code, again.error()["kind"]) == (1, "name_taken")
    both = run("fork", data / "events", data / "x", "--at", 1, "--snapshot", "y")
    assert both.code == 1
    assert "exclude each other" in both.stderr
    missing = run("fork", "--json", data / "events", data / "x", "--snapshot", "y")
    assert (missing.code, missing.error()["kind"]) == (2, "no_such_snapshot")
    assert missing.error()["name"] == "y"
    past = run("fork", "--json", data / "events", data / "x", "--at", 9)
    assert (past.code, past.error()["kind"]) == (2, "past_end")
    nothing = run("fork", "--json", data / "nothing", data / "x")
    assert (nothing.code, nothing.error()["kind"]) == (2, "not_a_log")
    outside = run("fork", data / "events", data.parent / "x")
    assert outside.code == 1
    assert "--root names one that holds both" in outside.stderr
    run("fork", data / "events", data.parent / "x", "--root", data.parent).ok()
    assert len(payloads(data.parent / "x")) == 5


def test_a_running_writer_does_not_mind(data: Path) -> None:
    with aof2.Aof.open(data / "events") as log:
        log.append(b"5")
        log.flush()
        run("fork", data / "events", data / "trial").ok()
        run("snapshot", data / "events", "now").ok()
        locked = run("drop", "--json", data / "events")
        assert (locked.code, locked.error()["kind"]) == (4, "locked")
    assert len(payloads(data / "trial")) == 6


def test_snapshots(data: Path) -> None:
    log = data / "events"
    assert run("snapshot", log).ok().text == ""
    told = run("snapshot", log, "two", "--at", 2).ok().text
    assert told == "snapshot two of events at offset 2\n"
    taken = run("snapshot", "--json", log, "week", "--expires", "7d").ok().json()
    assert (taken["name"], taken["offset"]) == ("week", 5)
    assert taken["expires_at_ms"] - taken["created_at_ms"] == pytest.approx(604_800_000, abs=60_000)
    listed = run("snapshot", "--json", log, "--list").ok().lines()
    assert [(each["name"], each["offset"]) for each in listed] == [("two", 2), ("week", 5)]
    rows = run("snapshot", log).ok().text.splitlines()
    assert [row.split("\t")[:2] for row in rows[-2:]] == [["two", "2"], ["week", "5"]]
    again = run("snapshot", "--json", log, "two")
    assert (again.code, again.error()["kind"]) == (1, "name_taken")
    assert run("snapshot", log, "two", "--drop").ok().text == "dropped snapshot two of events\n"
    missing = run("snapshot", "--json", log, "two", "--drop")
    assert (missing.code, missing.error()["kind"]) == (2, "no_such_snapshot")


@pytest.mark.parametrize(
    "wrong",
    [
        ["--drop"],
        ["--expires", "7d"],
        ["--at", "3"],
        ["x", "--list"],
        ["--list", "--drop"],
        ["x", "--expires", "0s"],
        ["x", "--expires", "soon"],
        ["x", "--expires", "999999999999w"],
        ["x", "--drop", "--at", "3"],
    ],
)
def test_snapshot_options_that_make_no_sense(data: Path, wrong: list[str]) -> None:
    refused = run("snapshot", data / "events", *wrong)
    assert refused.code == 1
    assert refused.stderr.startswith("error: ")
    assert run("snapshot", "--json", data / "events").ok().lines() == []


def test_drop_detach_and_sweep(data: Path) -> None:
    run("fork", data / "events", data / "one", "--at", 3).ok()
    run("fork", data / "events", data / "two", "--at", 4).ok()
    held = run("drop", "--purge", "--json", data / "events")
    assert (held.code, held.error()["kind"]) == (4, "held")
    assert sorted(held.error()["holders"]) == ['fork "one"', 'fork "two"']
    assert run("detach", data / "one").ok().text == "detached one: 3 records copied\n"
    dropped = run("drop", "--json", data / "events").ok().json()
    assert dropped == {"dropped": "events", "holders": ['fork "two"']}
    assert payloads(data / "two") == [b"%d" % n for n in range(4)]
    assert run("drop", data / "two").ok().text == "dropped two\n"
    assert run("drop", "--purge", data / "one").ok().text == "dropped one\n"
    told = run("sweep", data).ok().text
    assert told == "removed 0 holds, 0 segments, 0 directories\n"
    swept = run("sweep", "--json", data).ok().json()
    assert swept == {"holds": 0, "segments": 0, "directories": 0}
    assert run("tree", data).ok().text == ""


def test_the_tree(data: Path) -> None:
    run("snapshot", data / "events", "four", "--at", 4).ok()
    run("fork", data / "events", data / "child", "--at", 3).ok()
    with aof2.Aof.open(data / "child") as log:
        log.append(b"own")
    run("fork", data / "child", data / "grandchild").ok()
    run("drop", data / "child").ok()
    check_golden("tree", run("tree", data).ok().text)
    nodes = run("tree", "--json", data).ok().lines()
    assert [node["name"] for node in nodes] == ["events", "child", "grandchild"]
    assert nodes[2]["parent"] == nodes[1]["stream_id"]
    assert (nodes[1]["is_dropped"], nodes[1]["holders"]) == (True, ['fork "grandchild"'])
    assert nodes[0]["snapshots"][0]["name"] == "four"


def test_a_fork_is_shown_once_if_a_copy_of_its_parent_is_there(data: Path) -> None:
    run("fork", data / "events", data / "trial", "--at", 3).ok()
    shutil.copytree(data / "events", data / "copy")
    told = run("tree", data).ok().text
    assert told == "copy\nevents\n  trial: forked at offset 3\n"


@pytest.mark.parametrize(
    "command",
    [
        ["fork", "s3://bucket/logs/events", "data/x"],
        ["snapshot", "s3://bucket/logs/events"],
        ["drop", "s3://bucket/logs/events"],
        ["detach", "s3://bucket/logs/events"],
        ["tree", "s3://bucket/logs"],
        ["sweep", "s3://bucket/logs"],
    ],
    ids=lambda command: command[0],
)
def test_addresses_are_refused(command: list[str]) -> None:
    refused = run(*command)
    assert refused.code == 1
    assert "there are no forks and snapshots yet" in refused.stderr


def test_the_new_log_is_no_address(data: Path) -> None:
    refused = run("fork", data / "events", "s3://bucket/logs/x")
    assert refused.code == 1
    assert "there are no forks and snapshots yet" in refused.stderr
