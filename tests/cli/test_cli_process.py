"""As a process among others: pipes, signals, a writer next door."""

import json
import os
import signal
import subprocess
from pathlib import Path

import aof2
import pytest
from cli_support import (
    COMMAND,
    DEADLINE_SECONDS,
    environment,
    make_log,
    run,
    running,
    running_writer,
    spawn,
    wait_until,
)


def test_the_exit_code_is_that_of_the_process(log: Path, tmp_path: Path) -> None:
    assert spawn("info", log).code == 0
    assert spawn("info").code == 1
    assert spawn("info", tmp_path).code == 2


@pytest.mark.parametrize("output", ["text", "json", "raw", "hex"])
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path, output: str) -> None:
    log = make_log(tmp_path / "log", [b"x" * 1000] * 3000)
    process = subprocess.Popen(
        [*COMMAND, "cat", str(log), "-o", output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    # More than a pipe holds is still to come when it is closed.
    assert process.stdout.read(10)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=DEADLINE_SECONDS), errors) == (0, b"")


def test_a_closed_pipe_is_silent_for_short_output_too(log: Path) -> None:
    for arguments in (["info", log], ["segments", log], ["--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=DEADLINE_SECONDS,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")


def ends_with_its_reader(lines: int, *arguments: object) -> bool:
    """Whether a command ends, quietly, when so many lines were read of it."""
    process = subprocess.Popen(
        [*COMMAND, *(str(argument) for argument in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        code = process.wait(timeout=DEADLINE_SECONDS)
        return (code, process.stderr.read()) == (0, b"")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_tail_ends_with_its_reader_although_no_record_comes(log: Path) -> None:
    """`tail -f | head -3` hung until the next record."""
    assert ends_with_its_reader(3, "tail", "-f", log)
    with running_writer(log) as writer:
        writer.write(b"one\n")
        writer.line()
        assert ends_with_its_reader(3, "tail", "-f", log)


def test_top_ends_with_its_reader_between_two_looks(log: Path) -> None:
    assert ends_with_its_reader(1, "top", "--interval", "86400", log)


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["cat", "LOG"], 0),
        (["info", "LOG"], 0),
        (["segments", "--json", "LOG"], 0),
        (["append", "LOG", "x"], 0),
        (["append", "LOG"], 0),
        (["verify", "LOG"], 0),
        (["cat", "missing"], 2),
        (["--help"], 0),
    ],
)
def test_a_stream_that_the_shell_has_closed_is_nobody(
    log: Path, arguments: list[str], code: int, closed: int
) -> None:
    """`cat LOG >&-` was a traceback; and a log's own file had the number 1."""
    before = payloads(log)
    command = [*COMMAND, *(str(log) if a == "LOG" else a for a in arguments)]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(),
        preexec_fn=lambda: os.close(closed),
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == code, done
    assert b"Traceback" not in done.stderr
    assert payloads(log) == before + [b"x"] * (arguments[-1] == "x")
    assert run("verify", log).ok().text.startswith("healthy")


def payloads(log: Path) -> list[bytes]:
    with aof2.open(log) as reader:
        return [bytes(record) for record in reader.scan()]


def test_a_locale_that_does_not_know_the_characters_of_a_path(tmp_path: Path) -> None:
    """The path that came back from the log was another one than had been given."""
    log = make_log(tmp_path / "größe" / "events", [b"a", b"b"], seal_after=(0,))
    ascii_only = environment(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")

    def ran(*arguments: object, code: int = 0) -> bytes:
        result = spawn(*arguments, env=ascii_only)
        assert result.code == code, result
        assert "bug" not in result.stderr
        return result.stdout + result.stderr.encode()

    assert json.loads(ran("info", "--json", log))["path"] == str(log)
    assert b"gr\\xc3\\xb6\\xc3\\x9fe/events" in ran("info", log)
    first = json.loads(ran("segments", "--json", log).splitlines()[0])
    assert Path(first["path"]).exists()
    for command in ("segments", "cat", "tail", "verify", "seal", "scrub"):
        ran(command, log)
    ran("top", "--count", "1", log)
    ran("append", log, "c")
    ran("cat", tmp_path / "größe" / "nothing", code=2)


def test_tail_follows_a_writer_until_interrupted(log: Path) -> None:
    with running_writer(log) as writer, running("tail", "-f", "-n", "1", log) as tail:
        assert tail.line() == "last"
        for word in ("one", "two", "three"):
            writer.write(word.encode() + b"\n")
            writer.line()  # it is durable
            assert tail.line() == word
        tail.interrupt()
        result = tail.finish()
        assert (result.code, result.stdout, result.stderr) == (130, b"", "")


def test_tail_follows_the_next_writer_and_the_one_after(log: Path) -> None:
    with running("tail", "-f", "-n", "1", log) as tail:
        assert tail.line() == "last"
        for word in ("one", "two", "three"):
            run("append", log, word).ok()
            assert tail.line() == word
        tail.interrupt()
        assert tail.finish().code == 130


def test_tail_goes_on_behind_a_writer_that_was_killed(log: Path) -> None:
    with running("tail", "-f", "-n", "1", "--json", log) as tail:
        assert json.loads(tail.line())["payload"] == "last"
        with running_writer(log) as writer:
            writer.write(b"one\n")
            writer.line()
            assert json.loads(tail.line())["payload"] == "one"
            writer.kill()
            writer.finish()
        run("append", log, "two").ok()
        assert json.loads(tail.line())["payload"] == "two"


def test_tail_until_closed_ends_with_the_writer(log: Path) -> None:
    with running_writer(log) as writer:
        writer.write(b"one\n")
        writer.line()
        with running("tail", "-f", "--until-closed", "-n", "1", log) as tail:
            assert tail.line() == "one"
            writer.write(b"two\n")
            writer.line()
            assert writer.finish().code == 0
            assert tail.line() == "two"
            result = tail.finish()
            assert (result.code, result.stderr) == (0, "")


def test_tail_shows_records_across_segments(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", [b"start"])
    with running("tail", "-f", log) as tail:
        assert tail.line() == "start"
        run("append", log, "--segment-bytes", "64k", stdin=b"\n".join([b"y" * 9000] * 40)).ok()
        for _ in range(40):
            assert tail.line() == "y" * 9000


def test_append_streams_and_each_id_it_prints_is_durable(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running_writer(log) as writer:
        for number in range(5):
            writer.write(b"line %d\n" % number)
            assert writer.line().split("\t")[0] == str(number)
            assert run("info", "--json", log).ok().json()["durable_offset"] >= number + 1
        assert writer.finish().code == 0


def test_interrupted_append_keeps_and_counts_what_it_has(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running_writer(log) as writer:
        writer.write(b"one\ntwo\n")
        assert [writer.line().split("\t")[0] for _ in range(2)] == ["0", "1"]
        writer.interrupt()
        result = writer.finish()
    assert result.code == 130
    assert result.stderr == "error: interrupted; 2 records appended before that\n"
    assert run("cat", log).ok().text == "one\ntwo\n"
    assert run("info", "--json", log).ok().json()["writer"]["state"] == "closed"


def test_info_tells_a_running_a_killed_and_a_closed_writer_apart(log: Path) -> None:
    def state() -> dict[str, object]:
        found: dict[str, object] = run("info", "--json", log).ok().json()["writer"]
        return found

    assert state()["state"] == "closed"
    with running_writer(log) as writer:
        writer.write(b"x\n")
        writer.line()
        assert (state()["state"], state()["pid"]) == ("writing", writer.pid)
        writer.kill()
        writer.finish()
        assert (state()["state"], state()["pid"]) == ("interrupted", None)
    run("append", log, "y").ok()
    assert state()["state"] == "closed"


def test_export_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    """The interrupt comes when all is written and before the file gets its name."""
    log = make_log(tmp_path / "log", [b"x"])
    script = (
        "import os, signal, sys, aof2.cli.commands.export as export, aof2.cli\n"
        "whole = export.write_records\n"
        "def interrupted(*args):\n"
        "    whole(*args)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    signal.pause()\n"
        "export.write_records = interrupted\n"
        "sys.exit(aof2.cli.main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", script, "export", str(log), str(tmp_path / "out.jsonl")],
        capture_output=True,
        env=environment(),
        timeout=DEADLINE_SECONDS,
    )
    assert (done.returncode, done.stderr) == (130, b"")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log"]


def test_top_watches_a_writer_from_outside(log: Path) -> None:
    with running_writer(log) as writer:
        writer.write(b"one\n")
        writer.line()
        with running("top", "--json", "--interval", "0.01", log) as top:
            first = json.loads(top.line())
            assert first["records_per_second"] is None
            assert first["writer"] == {"state": "writing", "pid": writer.pid}
            assert first["durable_offset"] == 7
            writer.write(b"two\n")
            writer.line()
            seen = [json.loads(top.line())]
            while seen[-1]["durable_offset"] < 8:  # ends with the deadline of line()
                seen.append(json.loads(top.line()))
            # Appended and durable may be seen in different looks.
            for rate in ("records_per_second", "durable_per_second", "bytes_per_second"):
                assert any(look[rate] > 0 for look in seen), rate
            top.interrupt()
            result = top.finish()
            assert (result.code, result.stderr) == (130, "")


def test_top_ends_by_count_and_shows_each_log(log: Path, tmp_path: Path) -> None:
    other = make_log(tmp_path / "other", [b"x"])
    result = spawn("top", "--count", "2", "--interval", "0.01", log, other)
    assert (result.code, result.stderr) == (0, "")
    header, *rows = [line.split("\t") for line in result.text.splitlines()]
    assert header[:3] == ["time", "log", "writer"]
    assert [row[1] for row in rows] == ["events", "other", "events", "other"]
    assert [row[header.index("records/s")] for row in rows] == ["-", "-", "0", "0"]


def test_an_interrupt_wakes_a_sleeping_top(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log", [b"x"])
    with running("top", "--interval", "1000", log) as top:
        top.line()
        top.line()
        top.interrupt()
        result = top.finish()
        assert (result.code, result.stderr) == (130, "")


def test_bench_runs_and_cleans_up(tmp_path: Path) -> None:
    options = ("--data-bytes", "64k", "--durable-count", "3", "--rounds", "2", "--json")
    report = run("bench", tmp_path, *options).ok().json()
    works = [figure["work"] for figure in report["figures"]]
    assert works[:4] == ["append", "append_many", "durable append", "scan"]
    for figure in report["figures"]:
        assert figure["records_per_second"] > 0
        assert figure["ratio_min"] <= figure["ratio"] <= figure["ratio_max"]
    assert list(tmp_path.iterdir()) == []
    assert run("bench", tmp_path, *options[:-1]).ok().text.startswith("work\trecords/s")
    assert run("bench", tmp_path / "missing").code == 2
    assert run("bench", tmp_path, "--payload-bytes", "0").code == 1


def test_completion_completes_commands_and_options() -> None:
    script = run("completion", "bash").ok().text
    checked = subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True)
    assert (checked.returncode, checked.stderr) == (0, b"")

    def complete(words: str, index: int) -> list[str]:
        env = environment(_AOF2_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(index))
        lines = spawn(env=env).text.splitlines()
        return [line.split(",", 1)[1] for line in lines]

    assert complete("aof2 se", 1) == ["segments", "seal"]
    assert complete("aof2 trim --k", 2) == ["--keep-bytes"]
    assert complete("aof2 cat x --output ", 4) == ["text", "raw", "json", "hex"]
    for shell in ("zsh", "fish"):
        assert "_AOF2_COMPLETE" in run("completion", shell).ok().text
    assert set(run("completion", "bash", "--json").ok().json()) == {"shell", "script"}


def test_a_terminated_writer_is_recovered_by_the_next(log: Path) -> None:
    with running_writer(log) as writer:
        writer.write(b"kept\n")
        writer.line()
        os.kill(writer.pid, signal.SIGTERM)
        assert writer.finish().code == -signal.SIGTERM
    wait_until("the lock is free", lambda: run("seal", log).code == 0)
    assert run("tail", "-n", "1", log).ok().text == "kept\n"
