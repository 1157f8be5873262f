"""Readers in other processes, while the writer runs, dies, or is gone."""

from __future__ import annotations

import os
import pickle
import signal
from typing import TYPE_CHECKING

import aof2
import pytest
from support import DEADLINE_S, run_program, start_program, wait_until

if TYPE_CHECKING:
    from pathlib import Path

READ = """
    import sys
    import aof2
    with aof2.open(sys.argv[1]) as reader:
        for record in reader.scan():
            print(record.offset, bytes(record).decode())
        print(reader.watermarks().durable, reader.writer_pid, reader.closed_cleanly)
"""


def test_another_process_reads_what_is_durable(tmp_path: Path, quiet: aof2.Aof) -> None:
    quiet.append(b"durable")
    quiet.flush()
    quiet.append(b"only appended")
    assert run_program(READ, quiet.path) == ["0 durable", f"1 {os.getpid()} False"]
    quiet.close()
    assert run_program(READ, quiet.path) == [
        "0 durable",
        "1 only appended",
        f"2 {os.getpid()} True",
    ]


def test_reading_a_directory_starts_no_thread(tmp_path: Path) -> None:
    """So a process may import, look around, and fork its workers."""
    tiers = aof2.Tiers(hot_bytes=1 << 20)
    with aof2.Aof.open(tmp_path / "events", segment_bytes=64 << 10, tiers=tiers) as log:
        for _ in range(2):
            log.append_many([bytes(1000)] * 30)
            log.seal()
        log.evict(0)
        assert {segment.residency for segment in log.segments()} == {"warm", "hot"}
    program = """
        import os, sys
        import aof2
        with aof2.open(sys.argv[1]) as reader:
            records = sum(1 for record in reader.scan())
            reader.read_offset(0), reader.read_offset(records - 1)
        assert aof2.verify(sys.argv[1]).is_healthy
        print(records, len(os.listdir("/proc/self/task")))
    """
    assert run_program(program, tmp_path / "events") == ["60 1"]


def test_another_process_follows_a_writer_to_its_end(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", segment_bytes=64 << 10) as log:
        log.append(b"0")
        log.flush()
        program = start_program(
            """
            import sys
            import aof2
            follow = aof2.open(sys.argv[1]).follow("earliest", until_closed=True)
            print(next(follow).offset, flush=True)
            total = sum(1 for record in follow)
            print(total, follow.next_offset)
            """,
            log.path,
        )
        with program:
            try:
                assert program.stdout is not None
                assert program.stdout.readline() == "0\n"
                for _ in range(50):
                    log.append_many([bytes(1000)] * 20)
                    log.flush()
                log.close()
                out, err = program.communicate(timeout=DEADLINE_S)
            finally:
                program.kill()
        assert (out, err) == ("1000 1001\n", "")


def test_what_a_killed_writer_had_made_durable_is_there(tmp_path: Path) -> None:
    program = start_program(
        """
        import sys, time
        import aof2
        log = aof2.Aof.open(sys.argv[1], flush_interval_ms=0)
        log.append_many(b"%d" % i for i in range(1000))
        log.flush()
        log.append(b"appended")
        print("ready", flush=True)
        sys.stdin.read()
        """,
        tmp_path / "events",
    )
    with program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            program.send_signal(signal.SIGKILL)
            program.communicate(timeout=DEADLINE_S)
        finally:
            program.kill()
    with aof2.open(tmp_path / "events") as reader:
        assert reader.closed_cleanly is False
        assert reader.writer_pid == program.pid
        assert [int(bytes(record)) for record in reader.scan(end=1000)] == list(range(1000))
    with aof2.Aof.open(tmp_path / "events") as log:
        # The page cache survives the process.
        assert bytes(log.read_offset(1000)) == b"appended"


def test_a_reader_pickles_by_its_path(tmp_path: Path, log: aof2.Aof) -> None:
    rid = log.append(b"hello")
    log.flush()
    with aof2.open(log.path) as reader:
        data = pickle.dumps(reader)
        reader.close()
        # A closed one pickles, too: it is only a place.
        assert pickle.dumps(reader) == data
    with pickle.loads(data) as again:
        assert isinstance(again, aof2.Reader)
        assert bytes(again.read(rid)) == b"hello"
    told = run_program(
        """
        import pickle, sys
        reader, rid, record = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(reader.read(rid) == record, bytes(record).decode())
        """,
        pickle.dumps((again, rid, log.read(rid))).hex(),
    )
    assert told == ["True hello"]


def test_a_writer_does_not_pickle(log: aof2.Aof) -> None:
    for value in (log, log.scan(), log.follow(), aof2.AofManager()):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(value)


def test_a_reader_sees_what_comes_and_what_goes(tmp_path: Path, quiet: aof2.Aof) -> None:
    with aof2.open(quiet.path) as reader:
        assert reader.watermarks() == aof2.Watermarks(appended=0, durable=0)
        assert (reader.name, reader.stream_id) == (quiet.name, quiet.stream_id)
        for i in range(3):
            quiet.append(b"%d" % i)
            quiet.seal()
            assert [bytes(r) for r in reader.scan(i)] == [b"%d" % i]
        assert [s.first_offset for s in reader.segments()] == [0, 1, 2]
        quiet.apply_retention(before_offset=2)
        assert reader.earliest_offset() == 2
        quiet.append(b"appended")
        wait_until(lambda: reader.watermarks().appended == 4)
        assert reader.watermarks().durable == 3
