"""What the values of the package are: ids, records, reports."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import aof2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import QUIET, SMALL

if TYPE_CHECKING:
    from pathlib import Path

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)


@given(U32, U32)
def test_a_record_id_survives_every_form(segment: int, offset: int) -> None:
    rid = aof2.RecordId(segment, offset)
    assert (rid.segment_index, rid.segment_offset) == (segment, offset)
    assert int(rid) == segment << 32 | offset
    assert str(rid) == f"{segment}:{offset}"
    assert repr(rid) == f"RecordId({segment}, {offset})"
    forms = [
        aof2.RecordId.parse(str(rid)),
        aof2.RecordId.parse(str(int(rid))),
        aof2.RecordId.from_int(int(rid)),
        pickle.loads(pickle.dumps(rid)),
        copy.deepcopy(rid),
    ]
    assert forms == [rid] * 5
    assert {hash(form) for form in forms} == {hash(rid)}


@given(st.tuples(U32, U32), st.tuples(U32, U32))
def test_record_ids_order_as_their_places_do(a: tuple[int, int], b: tuple[int, int]) -> None:
    first, second = aof2.RecordId(*a), aof2.RecordId(*b)
    assert (first < second) == (a < b)
    assert (first <= second) == (a <= b)
    assert (first > second) == (a > b)
    assert (first >= second) == (a >= b)
    assert (first == second) == (a == b)
    assert (first != second) == (a != b)


def test_a_record_id_is_nothing_else() -> None:
    rid = aof2.RecordId(1, 2)
    assert rid != int(rid)
    assert rid != (1, 2)
    with pytest.raises(TypeError):
        _ = rid < 3  # type: ignore[operator]
    with pytest.raises(AttributeError):
        rid.segment_index = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        [0, 1, 2][rid]  # type: ignore[call-overload]


@given(data=st.data(), count=st.integers(0, 30))
def test_record_ids_are_a_sequence(
    data: st.DataObject, count: int, ids_of: Sequence[aof2.RecordIds]
) -> None:
    ids = ids_of[count]
    model = [ids[i] for i in range(count)]
    assert isinstance(ids, Sequence)
    assert list(ids) == model
    assert list(reversed(ids)) == model[::-1]
    assert len(ids) == count
    part = data.draw(st.slices(count))
    assert list(ids[part]) == model[part]
    if model[part]:
        assert ids[part].first_offset == ids.first_offset + range(count)[part][0]
    for i, rid in enumerate(model):
        assert rid in ids
        assert ids.index(rid) == i
        assert ids.count(rid) == 1
        assert ids[i - count] == rid
    assert pickle.loads(pickle.dumps(ids)) == ids
    assert pickle.loads(pickle.dumps(ids[part])).first_offset == ids[part].first_offset
    stranger = aof2.RecordId(9, 9)
    assert stranger not in ids
    assert ids.count(stranger) == 0
    for bad in (count, -count - 1):
        with pytest.raises(IndexError):
            ids[bad]
    with pytest.raises(ValueError, match="not among"):
        ids.index(stranger)


@pytest.fixture(scope="module")
def ids_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[aof2.RecordIds]]:
    """`RecordIds` by their length."""
    with aof2.Aof.open(tmp_path_factory.mktemp("ids") / "events") as log:
        yield [log.append_many([b"x"] * count) for count in range(31)]


def test_record_ids_of_several_batches_know_their_offsets(tmp_path: Path) -> None:
    """Somebody else appends between two batches, so offsets are not consecutive."""
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:

        def payloads() -> Iterator[bytes]:
            for i in range(60):
                if i % 20 == 19:
                    log.append(b"other")
                yield bytes(1000)

        ids = log.append_many(payloads())
        log.flush()
        for i, rid in enumerate(ids):
            assert ids[i:].first_offset == log.read(rid).offset
        backwards = ids[::-1]
        assert backwards.first_offset == log.read(ids[-1]).offset
        assert backwards[3:].first_offset == log.read(ids[-4]).offset
        assert pickle.loads(pickle.dumps(ids))[45:].first_offset == log.read(ids[45]).offset
        assert ids[-1] > ids[0]
        assert log.read(ids[-1]).offset == 62


@given(U32, U32, U64, st.integers(0, 253402300799999), U32, st.binary(max_size=64))
def test_a_record_is_what_it_was_made_of(
    segment: int, byte: int, offset: int, ms: int, flags: int, payload: bytes
) -> None:
    rid = aof2.RecordId(segment, byte)
    record = aof2.Record(rid, offset, ms, flags, payload)
    assert (record.id, record.offset, record.timestamp_ms, record.flags) == (rid, offset, ms, flags)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert record.timestamp == epoch + datetime.timedelta(milliseconds=ms)
    assert record.timestamp.tzinfo is datetime.UTC
    assert bytes(record) == payload == record.payload.tobytes()
    assert len(record) == len(payload) == len(record.payload)
    again = pickle.loads(pickle.dumps(record))
    assert again == record
    assert hash(again) == hash(record)
    assert bytes(again) == payload
    other = aof2.Record(rid, offset, ms, flags, payload + b"!")
    assert other != record
    assert record != payload


def test_a_payload_cannot_be_written(quiet: aof2.Aof) -> None:
    record = quiet.read(quiet.append(b"hello"), visibility="appended")
    assert record.payload.readonly
    assert record.payload.c_contiguous
    with pytest.raises(TypeError):
        record.payload[0] = 1
    with pytest.raises(BufferError):
        record.__buffer__(1)
    assert memoryview(record) == record.payload
    assert bytes(memoryview(record)) == b"hello"


def test_times_past_what_datetime_knows_are_still_numbers() -> None:
    record = aof2.Record(aof2.RecordId(0, 0), 0, 2**64 - 1, 0, b"x")
    assert record.timestamp_ms == 2**64 - 1
    assert record.timestamp.isoformat() == "9999-12-31T23:59:59.999000+00:00"


def test_a_record_of_a_log_pickles_by_copying(log: aof2.Aof) -> None:
    rid = log.append(b"hello", timestamp_ms=5, flags=2)
    log.flush()
    record = log.read(rid)
    copied = pickle.loads(pickle.dumps(record))
    assert copied == record
    assert (copied.flags, copied.timestamp_ms, bytes(copied)) == (2, 5, b"hello")
    assert copy.copy(record) == record


def reports(path: Path) -> list[Any]:
    with aof2.Aof.open(path) as log:
        for text in (b"old", b"new"):
            log.append(text)
            log.seal()
        retention = log.apply_retention(before_offset=1)
        values = [retention, log.watermarks(), *log.segments()]
    seen: list[aof2.VerifyProgress] = []
    return [*values, aof2.verify(path, progress=seen.append), aof2.repair(path), *seen]


def test_reports_are_frozen_equal_by_value_and_pickle(tmp_path: Path) -> None:
    values = reports(tmp_path / "events")
    assert {type(value).__name__ for value in values} >= {
        "RetentionReport",
        "Watermarks",
        "Segment",
        "VerifyReport",
        "RepairReport",
        "VerifyProgress",
    }
    for value in values:
        again = pickle.loads(pickle.dumps(value))
        assert again == value
        assert repr(again) == repr(value)
        field = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, None)


def test_every_repr_says_something(tmp_path: Path) -> None:
    manager = aof2.AofManager()
    # One that flushes only when asked: two records are not durable for as long as it takes.
    log = manager.open(tmp_path / "events", **QUIET)
    rid = log.append(b"\x00hello" * 10, flags=1)
    log.flush()
    reader = aof2.open(log.path)
    ids = log.append_many([b"a", b"b"])
    coroutine = log.flush_async()
    said = {
        log: ["Aof", str(tmp_path / "events"), "appended 3", "durable 1"],
        reader: ["Reader", str(tmp_path / "events"), "durable"],
        manager: ["AofManager", "1 open"],
        log.scan(): ["Scan", "next offset 0"],
        log.follow(): ["Follow", "next offset"],
        log.read(rid): ["Record 0", str(rid), "60 bytes", "hello", "flags 0x1"],
        ids: ["RecordIds", "2", str(ids[0])],
        ids[:1]: ["RecordIds", "1", str(ids[0])],
        ids[:0]: ["RecordIds", "none"],
        coroutine: ["flush_async"],
    }
    for value, words in said.items():
        for word in words:
            assert word in repr(value), repr(value)
    coroutine.close()
    reader.close()
    manager.shutdown()
    assert "closed" in repr(log)
    assert "closed" in repr(reader)
    assert "shut down" in repr(manager)


def test_scans_and_follows_are_iterators(log: aof2.Aof) -> None:
    assert isinstance(log.scan(), Iterator)
    assert isinstance(log.follow(), Iterator)
    assert isinstance(log, aof2.ReadableLog)
    with aof2.open(log.path) as reader:
        assert isinstance(reader, aof2.ReadableLog)
    for made_by_others in (aof2.Aof, aof2.Reader, aof2.ReadableLog, aof2.Scan, aof2.Follow):
        with pytest.raises(TypeError):
            made_by_others()
