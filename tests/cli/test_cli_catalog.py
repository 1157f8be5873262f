"""``aof2 catalog`` and ``aof2 oplog``."""

import shutil
from pathlib import Path

import aof2
import pytest
from cli_support import check_golden, environment, run, running, spawn


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A catalog with a log, a page store, a snapshot, a fork, a job."""
    root = tmp_path / "data"
    aof2.Aof.open(root / "events").close()
    with aof2.Catalog.open(root, actor="alice") as catalog:
        catalog.adopt_logs()  # 1
        catalog.register_db("app", "pages").wait()  # 2
        catalog.publish_snapshot("app", "monday").wait()  # 3
        catalog.fork_db("trial", "app").wait()  # 4
        catalog.enqueue_job("app", "merge", payload=b"\x01").wait()  # 5
        catalog.register_db("old", "pages").wait()  # 6
        catalog.update_db_status("old", "dropped").wait()  # 7
    return root


def names(result: object) -> list[str]:
    return [row["name"] for row in result]  # type: ignore[attr-defined]


def test_ls_lists_the_databases(root: Path) -> None:
    lines = run("catalog", "ls", root).ok().text.splitlines()
    head = ["db", "name", "kind", "status", "fork of", "snapshots", "created"]
    assert lines[0].split("\t") == head
    cells = [line.split("\t")[:6] for line in lines[1:]]
    assert cells == [
        ["1", "events", "log", "active", "-", "0"],
        ["2", "app", "pages", "active", "-", "2"],
        ["3", "trial", "pages", "active", "2", "0"],
    ]
    whole = run("catalog", "ls", root, "--all", "--json").ok().lines()
    assert names(whole) == ["events", "app", "trial", "old"]
    with aof2.open(root / "events") as log:
        assert whole[0]["stream_id"] == f"{log.stream_id:016x}"
    assert names(run("catalog", "ls", root, "--at", 2, "--json").lines()) == ["events", "app"]


def test_tree_has_snapshots_and_forks_below_what_they_are_of(root: Path) -> None:
    assert run("catalog", "tree", root).ok().text.splitlines() == [
        "events (log 1)",
        "app (pages 2)",
        "  @monday (snapshot 1 at checkpoint 0)",
        "  trial (pages 3, fork at checkpoint 0)",
        "old (pages 4, dropped)",
    ]
    whole = run("catalog", "tree", root, "--json").ok().lines()
    assert names(whole) == ["events", "app", "old"]
    assert names(whole[1]["snapshots"]) == ["monday"]
    assert names(whole[1]["forks"]) == ["trial"]


def test_table_prints_rows_now_and_then(root: Path) -> None:
    lines = run("catalog", "table", root, "db_names").ok().text.splitlines()
    assert lines == ["name\tdb_id", "app\t2", "events\t1", "trial\t3"]
    earlier = run("catalog", "table", root, "db_names", "--at", "2.0", "--json").ok().lines()
    assert names(earlier) == ["app", "events"]
    counts = run("catalog", "table", root, "--json").ok().json()
    assert counts["tables"]["db"] == 4
    assert len(run("catalog", "table", root).ok().text.splitlines()) == 17
    (job,) = run("catalog", "table", root, "job_queue", "--json").ok().lines()
    assert job["payload"] == "01"
    assert job["created"].endswith("Z")


def test_an_unknown_table_names_those_that_there_are(root: Path) -> None:
    result = run("catalog", "table", root, "dbs", "--json")
    assert result.code == 1
    error = result.error()
    assert "dbs" in error["message"]
    assert "snapshot_index" in error["hint"]


@pytest.mark.parametrize(
    "command", [("catalog", "ls"), ("catalog", "tree"), ("catalog", "table"), ("oplog", "state")]
)
def test_a_state_that_is_not_there_is_told(root: Path, command: tuple[str, str]) -> None:
    result = run(*command, root, "--at", 99, "--json")
    assert result.code == 2
    assert result.error()["kind"] == "past_end"
    assert "99" in result.error()["message"]
    assert run(*command, root, "--at", "yesterday").code == 1


def test_jobs_are_listed(root: Path) -> None:
    (line,) = run("catalog", "jobs", root).ok().text.splitlines()[1:]
    assert line.split("\t")[:5] == ["1", "2", "merge", "pending", "-"]
    with aof2.Catalog.open(root) as catalog:
        job = catalog.lease_job("worker", seconds=60)
        assert job is not None
        catalog.complete_job(job, "done", "merged").wait()
    (done,) = run("catalog", "jobs", root, "--json").ok().lines()
    assert (done["state"], done["message"]) == ("done", "merged")
    assert run("catalog", "jobs", root, "--unfinished", "--json").ok().stdout == b""


def test_changes_of_a_named_reader_come_once(root: Path) -> None:
    def generations(*options: object) -> list[int]:
        lines = run("catalog", "changes", root, "--json", *options).ok().lines()
        return [line["generation"] for line in lines]

    assert generations() == list(range(8))
    assert generations("--from", 6) == [6, 7]
    assert generations("--name", "search") == list(range(8))
    assert generations("--name", "search") == []
    assert generations("--name", "search", "--from", 7) == [7]
    assert generations() == list(range(8))
    lines = run("catalog", "changes", root, "--from", 6).ok().text.splitlines()
    assert [line.split("\t")[3] for line in lines] == ["type", "RegisterDb", "UpdateDbStatus"]


def test_following_changes_prints_what_comes(root: Path) -> None:
    command = ("catalog", "changes", root, "--name", "search", "--follow", "--json")
    with running(*command) as process:
        for _ in range(8):
            assert '"operation"' in process.line()
        with aof2.Catalog.open(root) as catalog:
            catalog.register_db("news", "pages").wait()
            assert '"name":"news"' in process.line()
        process.interrupt()
        assert process.finish().code == 130


def test_verify_says_healthy(root: Path) -> None:
    assert run("catalog", "verify", root).ok().text.startswith("healthy: ")
    report = run("catalog", "verify", root, "--json").ok().json()
    assert (report["generation"], report["problems"]) == (7, [])


def test_adopt_makes_a_catalog_of_the_logs_of_a_directory(tmp_path: Path) -> None:
    assert run("catalog", "adopt", tmp_path / "nothing").code == 2
    assert not (tmp_path / "nothing").exists()
    aof2.Aof.open(tmp_path / "events").close()
    assert run("catalog", "adopt", tmp_path, "--actor", "bob").ok().text == "adopted events\n"
    assert run("catalog", "adopt", tmp_path, "--json").ok().json() == {"logs": [], "skipped": []}
    lines = run("oplog", "show", tmp_path, "--json", "--actor", "bob").ok().lines()
    assert [line["type"] for line in lines] == ["CreateStream"]
    with aof2.Catalog.open(tmp_path):
        locked = run("catalog", "adopt", tmp_path, "--json")
        assert locked.code == 4
        assert locked.error()["kind"] == "locked"


def test_rebuild_starts_again_when_the_operation_log_is_gone(root: Path) -> None:
    assert run("catalog", "rebuild", root, "--yes").code == 1  # it is there
    shutil.rmtree(root / ".aof2" / "segment_store.log")
    for command in (("catalog", "ls"), ("oplog", "show"), ("catalog", "adopt")):
        gone = run(*command, root, "--json")
        assert gone.code == 2
        assert gone.error()["kind"] == "no_catalog"
        assert "rebuild" in gone.error()["hint"]
    assert run("catalog", "rebuild", root).code == 1  # nobody to ask
    report = run("catalog", "rebuild", root, "--yes", "--json").ok().json()
    assert report["adopted"]["logs"] == ["events"]
    assert "policies" in report["lost"]
    assert names(run("catalog", "ls", root, "--json").ok().lines()) == ["events"]


def test_without_a_catalog_there_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    for command in (
        ("catalog", "ls"),
        ("catalog", "tree"),
        ("catalog", "table"),
        ("catalog", "jobs"),
        ("catalog", "changes"),
        ("catalog", "verify"),
        ("oplog", "show"),
        ("oplog", "tail"),
        ("oplog", "verify"),
    ):
        result = run(*command, tmp_path)
        assert result.code == 2, command
        (line,) = result.stderr.splitlines()
        assert "has no catalog" in line
        assert "adopt" in line
    assert list(tmp_path.iterdir()) == []


def test_show_filters_operations(root: Path) -> None:
    def types(*options: object) -> list[str]:
        lines = run("oplog", "show", root, "--json", *options).ok().lines()
        return [line["type"] for line in lines]

    assert types()[0] == "Migrate"
    assert types("--from", 2, "--to", 4) == ["RegisterDb", "PublishSnapshot"]
    assert types("--type", "ForkDb") == ["ForkDb"]
    assert types("--actor", "nobody") == []
    lines = run("oplog", "show", root, "--type", "ForkDb").ok().text.splitlines()
    assert lines[0].split("\t") == ["operation", "time", "actor", "type", "phase", "fields"]
    assert "name=trial" in lines[1]
    assert lines[1].split("\t")[2] == "alice"


def test_tail_prints_the_last_batches_and_follows(root: Path) -> None:
    lines = run("oplog", "tail", root, "-n", 2, "--json").ok().lines()
    assert [line["generation"] for line in lines] == [6, 7]
    assert len(run("oplog", "tail", root).ok().text.splitlines()) == 9
    with running("oplog", "tail", root, "-n", 1, "-f") as process:
        assert process.line().startswith("operation\t")
        assert "UpdateDbStatus" in process.line()
        with aof2.Catalog.open(root) as catalog:
            catalog.register_db("news", "pages").wait()
            assert "name=news" in process.line()
        process.interrupt()
        assert process.finish().code == 130


def test_oplog_verify_finds_damage(root: Path) -> None:
    text = run("oplog", "verify", root).ok().text
    assert text == "healthy: 8 operations in generations 0 to 7\n"
    assert run("oplog", "verify", root, "--json").ok().json()["next_generation"] == 8
    log = root / ".aof2" / "segment_store.log"
    with aof2.open(log) as opened:
        record = opened.read_offset(3)
        (file,) = (segment.path for segment in opened.segments())
    place = record.id.segment_offset + 60
    data = bytearray(Path(file).read_bytes())
    data[place] ^= 0xFF
    Path(file).write_bytes(data)
    result = run("oplog", "verify", root)
    assert result.code == 5
    assert "Traceback" not in result.stderr


def test_diff_shows_what_changed_between_two_generations(root: Path) -> None:
    changes = run("oplog", "diff", root, 2, 3, "--json").ok().lines()
    (added,) = [change for change in changes if change["table"] == "snapshot_index"]
    assert added["before"] is None
    assert added["after"]["name"] == "monday"
    (line,) = run("oplog", "diff", root, "6.0", "7.0", "--table", "db").ok().text.splitlines()[1:]
    table, change, row = line.split("\t")
    assert (table, change) == ("db", "changed")
    assert "status=active->dropped" in row
    assert "name=old" in row
    (gone,) = run("oplog", "diff", root, 7, 6, "--table", "db_names", "--json").ok().lines()
    assert (gone["before"], gone["after"]["name"]) == (None, "old")
    assert run("oplog", "diff", root, 1, 2, "--table", "nothing").code == 1


def test_state_has_all_rows_of_all_tables(root: Path) -> None:
    state = run("oplog", "state", root, "--at", "2.0", "--json").ok().json()
    assert state["generation"] == 2
    assert names(state["tables"]["db"]) == ["events", "app"]
    assert state["tables"]["snapshot_index"] == []
    assert "db_names\tname=app db_id=2" in run("oplog", "state", root, "--at", 2).ok().text


def test_commands_read_beside_a_writer(root: Path) -> None:
    with aof2.Catalog.open(root) as catalog:
        catalog.register_db("news", "pages").wait()
        result = spawn("catalog", "ls", root, "--json", env=environment()).ok()
        assert names(result.lines())[-1] == "news"
        assert spawn("oplog", "verify", root).ok()


def test_the_look_of_a_tree_is_as_stored(root: Path) -> None:
    check_golden("catalog-tree", run("catalog", "tree", root).ok().text)
