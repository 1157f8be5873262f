"""Payloads are views of mapped segments; they outlive everything."""

from __future__ import annotations

import gc
import hashlib
from typing import TYPE_CHECKING, Any

import aof2
import numpy
from support import QUIET, SMALL

if TYPE_CHECKING:
    from pathlib import Path


def test_records_outlive_the_log_its_files_and_its_handles(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events", **SMALL)
    given = [bytes([i]) * 5000 for i in range(100)]
    log.append_many(given)
    log.flush()
    reader = aof2.open(log.path)
    records: list[Any] = [*log.scan(), *reader.scan()]
    views = [record.payload for record in records]
    arrays = [numpy.frombuffer(record, numpy.uint8) for record in records]
    log.close()
    reader.close()
    for file in (tmp_path / "events" / "segments").iterdir():
        file.unlink()
    del log, reader
    gc.collect()
    assert [bytes(record) for record in records] == given * 2
    del records
    gc.collect()
    assert [view.tobytes() for view in views] == given * 2
    del views
    gc.collect()
    assert [array.tobytes() for array in arrays] == given * 2


def test_records_outlive_retention(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **QUIET) as log:
        for i in range(3):
            log.append(b"%d" % i)
            log.seal()
        with aof2.open(log.path) as reader:
            record = reader.read_offset(0)
            assert log.apply_retention(before_offset=2).record_count == 2
            assert bytes(record) == b"0"


def test_a_view_is_not_a_copy(quiet: aof2.Aof) -> None:
    rid = quiet.append(bytes(10_000))
    record = quiet.read(rid, visibility="appended")
    views: list[Any] = [record, record.payload, memoryview(record), record]
    addresses = {numpy.frombuffer(view, numpy.uint8).ctypes.data for view in views}
    assert len(addresses) == 1
    assert record.payload.obj is record


def test_views_serve_whoever_takes_a_buffer(quiet: aof2.Aof) -> None:
    record = quiet.read(quiet.append(b"hello world"), visibility="appended")
    assert hashlib.sha256(record).digest() == hashlib.sha256(b"hello world").digest()
    assert bytes(record.payload[6:]) == b"world"
    assert b"".join([record, b"!"]) == b"hello world!"
    assert bytearray(record) == b"hello world"
    assert int.from_bytes(record.payload[:2], "big") == 0x6865


def test_a_record_is_appended_to_another_log_as_it_is(tmp_path: Path, quiet: aof2.Aof) -> None:
    quiet.append_many([bytes([i]) * 100_000 for i in range(5)])
    quiet.flush()
    with aof2.Aof.open(tmp_path / "copy", **QUIET) as copy:
        ids = copy.append_many(quiet.scan())
        copy.append(quiet.read_offset(4))
        copy.flush()
        assert [bytes(copy.read(rid)) for rid in ids] == [bytes(r) for r in quiet.scan()]
        assert bytes(copy.read_offset(5)) == bytes([4]) * 100_000
