"""Every failure: its exit code, one line that says what to do, and the same as JSON."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import aof2
import pytest
from aof2.cli.errors import ExitCode, describe
from cli_support import (
    COMMAND,
    DEADLINE_SECONDS,
    Result,
    environment,
    flip,
    make_log,
    run,
    running_writer,
    spawn,
)

NOBODY = 65534


def check(code: int, kind: str, *arguments: object, **how: Any) -> dict[str, Any]:
    """Runs it plainly and with --json; both must tell the same on one line each."""
    runner = how.pop("runner", run)
    plain = runner(*arguments, **how)
    assert plain.code == code, plain
    (line,) = plain.stderr.splitlines()
    assert line.startswith("error: ")
    as_json = runner(arguments[0], "--json", *arguments[1:], **how)
    assert as_json.code == code
    error: dict[str, Any] = as_json.error()
    assert (error["kind"], error["exit_code"]) == (kind, code)
    assert error["message"] in line
    assert error["hint"] is None or error["hint"] in line
    return error


def test_a_command_that_is_mistyped_is_guessed() -> None:
    assert "there is no command 'segmnts' (did you mean segments?)" in run("segmnts").stderr
    error = check(1, "usage", "quux")
    assert error["message"] == "there is no command 'quux'"


ADDRESS = "s3://bucket/logs/events"


@pytest.mark.parametrize(
    "arguments",
    [
        ["append", ADDRESS, "x"],
        ["append", "--no-create", ADDRESS, "x"],
        ["import", ADDRESS, "rows.jsonl"],
        ["seal", ADDRESS],
        ["trim", ADDRESS, "--keep-bytes", "1"],
        ["repair", ADDRESS],
        ["repair", "--dry-run", ADDRESS],
        ["evict", ADDRESS, "--all"],
        ["hydrate", ADDRESS, "--all"],
        ["pin", ADDRESS, "0"],
        ["upload", ADDRESS, "--all", "--cold", "s3://bucket/logs"],
        ["manifest", "inspect", ADDRESS],
        ["manifest", "verify", ADDRESS],
        ["manifest", "snapshot", ADDRESS],
        ["restore", ADDRESS, ADDRESS],
        ["append", "file:///tmp/events", "x"],
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_what_writes_refuses_an_address_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """A `seal` of an address once made a log in a directory `s3:`, and succeeded."""
    monkeypatch.chdir(tmp_path)
    # Nobody is asked: nothing listens there.
    monkeypatch.setenv("AOF2_COLD_ENDPOINT", "http://127.0.0.1:1")
    Path("rows.jsonl").write_text('{"payload": "x"}\n')
    if arguments[0] == "manifest":
        result = run(*arguments)
        assert result.code == 1, result
        assert "is an address and not a directory" in result.stderr
    else:
        error = check(1, "invalid_config", *arguments)
        assert error["field"] == "path"
        assert "is an address and not a directory" in error["message"]
        assert "restore" in error["message"] or "s3://" in error["message"]
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


READING = ["info", "segments", "cat", "tail", "verify", "tiers", "top"]
WRITING = ["seal", "repair"]


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_a_path_that_is_not_there(tmp_path: Path, name: str) -> None:
    error = check(2, "not_a_log", name, tmp_path / "missing")
    assert str(tmp_path / "missing") in error["message"]
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("name", [*READING, *WRITING])
def test_a_directory_that_is_no_log(tmp_path: Path, name: str) -> None:
    check(2, "not_a_log", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_trim_and_export_of_what_is_not_there(tmp_path: Path) -> None:
    check(2, "not_a_log", "trim", tmp_path / "missing", "--before", "1")
    check(2, "not_a_log", "export", tmp_path / "missing", tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_file_instead_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("hello")
    assert run("info", file).code == 2
    assert file.read_text() == "hello"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["info"],
        ["info", "a", "b"],
        ["info", "a", "--nonsense"],
        ["cat", "a", "--output", "xml"],
        ["trim", "a", "--keep-bytes", "many"],
        ["completion", "tcsh"],
        ["evict", "a", str(2**64)],
        ["hydrate", "", "0"],
        # What an unset variable of a script makes of "$LOG".
        *([name, ""] for name in [*READING, *WRITING]),
        ["append", "", "x"],
        ["export", "", "-"],
        ["import", "", "x.jsonl"],
        ["trim", "", "--keep-bytes", "1"],
        # Numbers and times that are too large for anything.
        ["cat", "a", "--from", str(2**64)],
        ["cat", "a", "--to", "9" * 5000],
        ["cat", "a", "--from", "9999-12-31T23:59:59-23:59"],
        ["append", "a", "x", "--timestamp", "0001-01-01T00:00:00+23:59"],
        ["append", "a", "x", "--segment-bytes", str(2**64)],
        ["append", "a", "x", "--name", "half \udcff"],
        ["trim", "a", "--keep-bytes", "99999999P"],
        ["trim", "a", "--older-than", f"{2**64}s"],
        ["top", "a", "--interval", "inf"],
        ["top", "a", "--interval", "nan"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.code, result.stdout) == (1, b"")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert "--help" in line
    error = run(*arguments, "--json").error()
    assert error["exit_code"] == 1


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"payload": "x", "timestamp": "9999-12-31T23:59:59-23:59"}',
        '{"payload": "x", "timestamp_ms": %s}' % ("9" * 5000),
        '{"payload": "x", "flags": 1e400}',
        '{"payload": "x", "payload_encoding": ["base64"]}',
        '{"payload": "half \\ud800"}',
    ],
)
def test_a_row_that_is_no_record_is_named_by_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"payload": "good"}}\n{line}\n')
    error = check(1, "invalid_row", "import", tmp_path / "events", file, "--dry-run")
    assert error["line"] == 2
    assert run("import", tmp_path / "events", file).code == 1
    assert run("cat", tmp_path / "events").ok().text == "good\n"


def test_more_records_than_there_can_be_are_all_of_them(log: Path) -> None:
    everything = run("cat", log).ok().stdout
    for count in (2**63, 10**30):
        assert run("cat", log, "-n", str(count)).ok().stdout == everything
        assert run("tail", log, "-n", str(count)).ok().stdout == everything


def test_records_that_are_not_there(log: Path) -> None:
    assert check(2, "past_end", "cat", log, "--from", "100")["end"] == 6
    check(2, "no_such_record", "cat", log, "--from", "0:72")
    run("trim", log, "--before", "2").ok()
    assert check(2, "trimmed", "cat", log, "--from", "0")["earliest"] == 2


def test_a_second_writer_is_told_who_writes(log: Path) -> None:
    with running_writer(log) as writer:
        writer.write(b"mine\n")
        writer.line()
        for arguments in (["append", log, "x"], ["seal", log], ["trim", log, "--before", "1"]):
            error = check(4, "locked", *arguments)
            assert error["pid"] == writer.pid
            assert str(writer.pid) in error["message"]
        # Readers need no lock.
        assert run("cat", log).ok().text.endswith("mine\n")
        assert run("verify", log).ok()


def test_repair_of_a_log_that_is_being_written(log: Path) -> None:
    flip(log, 0)
    with running_writer(log) as writer:
        writer.write(b"mine\n")
        writer.line()
        result = run("repair", "--yes", "--json", log)
        assert (result.code, result.error()["kind"]) == (4, "locked")


def test_corruption(log: Path) -> None:
    flip(log, 0)
    error = check(5, "corrupt", "cat", log)
    assert error["records"] == [0, 1]
    assert "repair" in error["hint"]


def test_damage_in_the_unsealed_end_stops_writers(log: Path) -> None:
    flip(log, 4)
    check(5, "corrupt", "append", log, "x")


def test_a_file_that_is_not_of_this_log(log: Path, tmp_path: Path) -> None:
    (log / "segments" / "holiday.seg").write_bytes(b"x" * 65536)
    error = check(5, "foreign_file", "append", log, "x")
    assert error["path"].endswith("holiday.seg")


def test_configuration_that_cannot_be(log: Path, tmp_path: Path) -> None:
    check(1, "invalid_config", "append", tmp_path / "new", "x", "--segment-bytes", "1000")
    error = check(1, "invalid_config", "append", log, "x", "--name", "other")
    assert error["field"] == "name"


def test_what_is_not_permitted(log: Path) -> None:
    # Root may do everything, so the command goes on as another user then. Its modules are
    # loaded before: that user may not be allowed to read them.
    script = (
        "import os, sys, aof2.cli.errors, aof2.cli.commands.info\n"
        f"os.geteuid() == 0 and os.setuid({NOBODY})\n"
        "sys.exit(aof2.cli.main(sys.argv[1:]))"
    )

    def as_nobody(*arguments: object) -> Result:
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)],
            capture_output=True,
            env=environment(),
            timeout=DEADLINE_SECONDS,
        )
        return Result(done.returncode, done.stdout, done.stderr.decode())

    closed = log / "segments"
    before = closed.stat().st_mode
    closed.chmod(0)
    try:
        error = check(3, "not_permitted", "info", log, runner=as_nobody)
    finally:
        closed.chmod(before)
    assert error["errno"] == errno.EACCES
    assert str(log) in error["path"]


def test_a_full_disk(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    try:
        error = check(4, "disk_full", "append", place / "log", "x", "--segment-bytes", "1M")
        assert error["errno"] == errno.ENOSPC
        assert "free space" in error["hint"]
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_output_that_cannot_be_written_is_no_success(log: Path) -> None:
    for arguments in (["cat", log], ["info", log], ["export", log, "-"], ["--help"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [*COMMAND, *map(str, arguments)],
                stdout=full,
                stderr=subprocess.PIPE,
                env=environment(),
                timeout=DEADLINE_SECONDS,
            )
        assert done.returncode == 4
        told = done.stderr.decode()
        assert told.startswith("error: standard output could not be written: No space left on")
        # Once it spoke of what had been durable, as if the log were meant.
        assert "durable" not in told


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (aof2.Poisoned("appends are refused"), ExitCode.IO),
        (aof2.Timeout("timed out"), ExitCode.IO),
        (aof2.WouldBlock("would block", kind="flush"), ExitCode.IO),
        (aof2.Closed("closed"), ExitCode.IO),
        (aof2.ForkedHandle("forked"), ExitCode.IO),
        (aof2.InvalidRecord("empty"), ExitCode.USAGE),
        (aof2.Trimmed("gone", earliest=3), ExitCode.NOT_FOUND),
        (aof2.RecordNotFound("none"), ExitCode.NOT_FOUND),
        (aof2.ForeignFile("theirs", path="x"), ExitCode.CORRUPT),
        (OSError(errno.EROFS, "Read-only file system", "x"), ExitCode.NOT_PERMITTED),
        (OSError(errno.EDQUOT, "Quota exceeded", "x"), ExitCode.IO),
        (OSError("nameless"), ExitCode.IO),
        (RuntimeError("what?"), ExitCode.BUG),
    ],
)
def test_failures_that_no_command_can_be_made_to_meet(error: Exception, code: ExitCode) -> None:
    failure = describe(error)
    assert failure.code == code
    assert failure.line().startswith("error: ")
    assert failure.as_json()


def test_every_error_of_the_package_has_a_code_of_its_own_accord() -> None:
    """None is taken for a bug."""
    kinds = [
        kind
        for kind in vars(aof2).values()
        if isinstance(kind, type) and issubclass(kind, aof2.Error)
    ]
    assert len(kinds) > 10
    for kind in kinds:
        bare = kind.__new__(kind, "message")
        bare.args = ("message",)
        assert describe(bare).code != ExitCode.BUG, kind


def test_errors_are_one_line_whatever_the_path_says(tmp_path: Path) -> None:
    result = run("info", f"{tmp_path}/new\nline\x1b[31m")
    assert result.code == 2
    (line,) = result.stderr.splitlines()
    assert "\x1b" not in line


def test_names_that_are_no_text_can_be_told(tmp_path: Path) -> None:
    bare = os.fsencode(tmp_path) + b"/\xff"
    done = subprocess.run(
        [*COMMAND, "info", bare], capture_output=True, env=environment(), timeout=DEADLINE_SECONDS
    )
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: ")
    make_log(tmp_path / "log", [b"x"])
    (tmp_path / "log").rename(os.fsdecode(bare))
    for arguments in (["info"], ["info", "--json"], ["segments", "--json"]):
        done = subprocess.run(
            [*COMMAND, *arguments, bare],
            capture_output=True,
            env=environment(LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"),
            timeout=DEADLINE_SECONDS,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_tracebacks_are_shown_only_when_asked_for(tmp_path: Path) -> None:
    quiet = spawn("info", tmp_path)
    assert "Traceback" not in quiet.stderr
    loud = spawn("info", tmp_path, env=environment(AOF2_TRACEBACK="1"))
    assert loud.stderr.startswith("Traceback")
    assert loud.stderr.endswith(quiet.stderr)
    assert loud.code == quiet.code == 2


def test_a_bug_is_told_as_one(log: Path) -> None:
    script = (
        "import sys, aof2.cli.commands.info as info, aof2.cli\n"
        "info.find_writer = lambda log: 1 / 0\n"
        "sys.exit(aof2.cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "info", str(log)], capture_output=True, env=environment()
    )
    assert done.returncode == 70
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("error: unexpected ZeroDivisionError")
    assert "AOF2_TRACEBACK=1" in line
