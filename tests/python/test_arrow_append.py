"""Appending Arrow data: every row becomes a record, or none of its chunk does."""

from __future__ import annotations

import datetime
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUES = [b"a", b"twelve bytes", b"thirteen byte", b"long " * 100, b"\x00"]
TEXTS = ["a", "twelve bytes", "thirteen byte", "öä" * 100, "\x00"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[aof2.Aof]:
    with aof2.Aof.open(tmp_path / "events") as log:
        yield log


def payloads(log: aof2.Aof) -> list[bytes]:
    log.flush()
    return [bytes(record) for record in log.scan()]


def appended(error: BaseException) -> int:
    """How many rows were appended before this error."""
    count: object = getattr(error, "appended", None)
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_every_binary_type_is_taken(log: aof2.Aof, kind: Any) -> None:
    done = log.append_arrow(pa.array(VALUES, kind))
    assert (done.count, done.first_offset, done.next_offset) == (5, 0, 5)
    assert payloads(log) == VALUES


@pytest.mark.parametrize("kind", [pa.utf8(), pa.large_utf8(), pa.string_view()], ids=str)
def test_every_text_type_is_taken_as_utf8(log: aof2.Aof, kind: Any) -> None:
    log.append_arrow(pa.array(TEXTS, kind))
    assert payloads(log) == [text.encode() for text in TEXTS]


def test_fixed_size_binary_is_taken(log: aof2.Aof) -> None:
    values = [b"abc", b"def", b"ghi"]
    log.append_arrow(pa.array(values, pa.binary(3))[1:])
    assert payloads(log) == values[1:]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_a_slice_is_only_that_slice(log: aof2.Aof, kind: Any) -> None:
    array = pa.array(VALUES, kind)
    log.append_arrow(array[1:4])
    log.append_arrow(array[4:])
    log.append_arrow(array[2:2])
    assert payloads(log) == VALUES[1:]


def test_a_sliced_batch_and_a_sliced_struct_are_only_their_slice(log: aof2.Aof) -> None:
    batch = pa.record_batch({"n": list(range(5)), "x": VALUES})
    log.append_arrow(batch.slice(1, 3))
    log.append_arrow(batch.to_struct_array()[3:])
    assert payloads(log) == VALUES[1:4] + VALUES[3:]


def test_chunks_tables_and_readers_keep_their_order(log: aof2.Aof) -> None:
    log.append_arrow(pa.chunked_array([VALUES, [], VALUES[:2]], pa.binary()))
    table = pa.table({"x": pa.chunked_array([VALUES[:2], VALUES[2:]])})
    log.append_arrow(table)
    done = log.append_arrow(table.to_reader())
    assert (done.count, done.first_offset, done.next_offset) == (5, 12, 17)
    assert payloads(log) == VALUES + VALUES[:2] + VALUES + VALUES


def test_nothing_appended_says_where_the_next_record_goes(log: aof2.Aof) -> None:
    log.append(b"first")
    done = log.append_arrow(pa.array([], pa.binary()))
    assert (done.count, done.first_offset, done.next_offset) == (0, 1, 1)


def test_the_payload_column_is_named_or_the_only_one(log: aof2.Aof) -> None:
    batch = pa.record_batch({"n": [1], "x": [b"bytes"], "t": ["text"]})
    log.append_arrow(batch, column="x")
    log.append_arrow(batch, column="t")
    log.append_arrow(batch.select(["n", "t"]))
    assert payloads(log) == [b"bytes", b"text", b"text"]
    with pytest.raises(ValueError, match=r'column=.*"x", "t"'):
        log.append_arrow(batch)
    with pytest.raises(ValueError, match=r'no column "y".*"n", "x", "t"'):
        log.append_arrow(batch, column="y")
    with pytest.raises(ValueError, match='"n" holds Int64'):
        log.append_arrow(batch, column="n")
    with pytest.raises(ValueError, match=r'no column holds binary data.*"n"'):
        log.append_arrow(batch.select(["n"]))
    with pytest.raises(ValueError, match="plain array"):
        log.append_arrow(batch["x"], column="x")


def test_dictionaries_are_refused_with_the_remedy(log: aof2.Aof) -> None:
    array = pa.array([b"a", b"b"]).dictionary_encode()
    with pytest.raises(ValueError, match="dictionary-encoded; decode it first"):
        log.append_arrow(array)
    assert payloads(log) == []


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1 / 1000), ("ms", 1), ("us", 1000), ("ns", 1_000_000)]
)
def test_timestamps_of_any_unit_become_milliseconds(
    log: aof2.Aof, unit: str, factor: float
) -> None:
    stamps = [1_700_000_000_000, 1_700_000_001_000, 1_600_000_000_000]
    column = pa.array([round(ms * factor) for ms in stamps], pa.timestamp(unit, tz="UTC"))
    log.append_arrow(pa.table({"x": VALUES[:3], "t": column}), timestamp_column="t")
    log.flush()
    assert [record.timestamp_ms for record in log.scan()] == stamps


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_without_a_zone_are_refused_as_everywhere(log: aof2.Aof, unit: str) -> None:
    """They were taken for UTC, where a naive datetime is refused."""
    column = pa.array([1, 2, 3], pa.timestamp(unit))
    table = pa.table({"x": VALUES[:3], "t": column})
    with pytest.raises(ValueError, match='column "t" holds timestamps without a time zone') as told:
        log.append_arrow(table, timestamp_column="t")
    assert appended(told.value) == 0
    assert payloads(log) == []
    for zone in ("UTC", "Europe/Stockholm", "+02:00"):
        log.append_arrow(
            pa.table({"x": VALUES[:1], "t": pa.array([1], pa.timestamp("ms", tz=zone))}),
            timestamp_column="t",
        )
    log.flush()
    assert [record.timestamp_ms for record in log.scan()] == [1, 1, 1]


def test_integer_timestamps_are_milliseconds_and_flags_go_with_their_row(log: aof2.Aof) -> None:
    for kind in (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()):
        table = pa.table(
            {
                "x": VALUES,
                "t": pa.array([7, 7, 8, 8, 9], pa.int64()),
                "f": pa.array([0, 1, 1, 2, 3], kind),
            }
        )
        log.append_arrow(table, timestamp_column="t", flags_column="f")
    log.flush()
    found = [(bytes(r), r.timestamp_ms, r.flags) for r in log.scan()]
    assert found == list(zip(VALUES, [7, 7, 8, 8, 9], [0, 1, 1, 2, 3], strict=True)) * 6


@pytest.mark.parametrize(
    ("column", "bad", "message"),
    [
        ("x", None, 'row 2: column "x" is null'),
        ("x", b"", 'row 2: the payload in column "x" is empty'),
        ("t", None, 'row 2: column "t" is null'),
        ("t", -1, 'row 2: the timestamp in column "t" is before 1970'),
        ("f", None, 'row 2: column "f" is null'),
        ("f", -1, 'row 2: -1 in column "f"'),
        ("f", 1 << 32, 'row 2: 4294967296 in column "f"'),
    ],
)
def test_a_bad_row_is_named_and_nothing_of_its_chunk_is_written(
    log: aof2.Aof, column: str, bad: Any, message: str
) -> None:
    columns: dict[str, list[Any]] = {"x": VALUES.copy(), "t": [1] * 5, "f": [0] * 5}
    columns[column][2] = bad
    batch = pa.record_batch(columns)
    with pytest.raises(ValueError, match=message) as caught:
        log.append_arrow(batch, column="x", timestamp_column="t", flags_column="f")
    assert appended(caught.value) == 0
    assert payloads(log) == []


def test_a_null_struct_is_a_null_row(log: aof2.Aof) -> None:
    array = pa.array([{"x": b"a"}, None], pa.struct({"x": pa.binary()}))
    with pytest.raises(ValueError, match="row 1 is null"):
        log.append_arrow(array)
    assert payloads(log) == []


def test_nulls_outside_the_slice_do_not_matter(log: aof2.Aof) -> None:
    array = pa.array([None, b"a", b"b", None] * 3)
    log.append_arrow(array[1:3])
    log.append_arrow(array[9:11])
    assert payloads(log) == [b"a", b"b"] * 2


def test_a_payload_too_long_is_the_logs_own_error(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "small", segment_bytes=1 << 16) as log:
        longest = b"x" * log.payload_len_max
        log.append_arrow(pa.array([longest]))
        with pytest.raises(aof2.InvalidRecord, match=r"row 1: .*this log takes at most"):
            log.append_arrow(pa.array([b"fine", longest + b"x"]))
        assert payloads(log) == [longest]


def test_what_came_before_a_failure_is_counted_and_kept(log: aof2.Aof) -> None:
    chunks = pa.chunked_array([VALUES, [b"a", None]], pa.binary())
    with pytest.raises(aof2.InvalidRecord, match="row 6: ") as caught:
        log.append_arrow(chunks)
    assert appended(caught.value) == 5
    assert payloads(log) == VALUES


def test_a_producer_that_fails_is_reported_with_what_was_appended(log: aof2.Aof) -> None:
    schema = pa.schema({"x": pa.binary()})

    def batches() -> Iterator[Any]:
        yield pa.record_batch({"x": VALUES})
        raise KeyError("the producer broke")

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(ValueError, match="the producer broke") as caught:
        log.append_arrow(reader)
    assert appended(caught.value) == 5
    assert payloads(log) == VALUES


def test_reserved_flags_are_refused_by_the_log_with_the_row(log: aof2.Aof) -> None:
    table = pa.table({"x": VALUES, "f": pa.array([0, 0, 0, 1 << 30, 0])})
    with pytest.raises(aof2.InvalidRecord, match=r"row 3: .*reserved") as caught:
        log.append_arrow(table, flags_column="f")
    assert appended(caught.value) == 3
    assert payloads(log) == VALUES[:3]


def test_what_is_no_arrow_data_is_a_type_error(log: aof2.Aof) -> None:
    with pytest.raises(TypeError, match="list is no Arrow data"):
        log.append_arrow([b"a"])


def test_a_closed_log_takes_nothing_not_even_nothing(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events")
    log.close()
    with pytest.raises(aof2.Closed):
        log.append_arrow(pa.array(VALUES))
    with pytest.raises(aof2.Closed):
        log.append_arrow(pa.array([], pa.binary()))


def test_records_that_roll_over_many_segments_all_arrive(tmp_path: Path) -> None:
    values = [bytes([i % 256]) * (1 + i * 37 % 9000) for i in range(600)]
    with aof2.Aof.open(tmp_path / "small", segment_bytes=1 << 16) as log:
        log.append_arrow(pa.chunked_array([values[:500], values[500:]]))
        assert payloads(log) == values
        assert len(log.segments()) > 10


def test_a_timeout_leaves_exactly_what_it_counted(tmp_path: Path) -> None:
    # Every new segment is prepared only when an append waits for it, so the call with no
    # time to wait usually ends early. Whenever it does, the count is exact.
    values = [bytes([i % 256]) * 5000 for i in range(400)]
    options: dict[str, Any] = {"segment_bytes": 1 << 16, "preallocate_segments": 0}
    with aof2.Aof.open(tmp_path / "events", **options) as log:
        try:
            count = log.append_arrow(pa.array(values), timeout=0).count
        except aof2.Timeout as error:
            count = appended(error)
        assert payloads(log) == values[:count]
        log.append_arrow(pa.array(values[count:], pa.binary()))
        assert payloads(log) == values


def test_a_compact_log_takes_arrow_data_without_flags(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "compact", format="compact") as log:
        log.append_arrow(pa.array(VALUES))
        table = pa.table({"x": VALUES, "f": [1] * 5})
        with pytest.raises(aof2.InvalidRecord, match=r"row 0: .*no flags"):
            log.append_arrow(table, flags_column="f")
        assert payloads(log) == VALUES


KINDS = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    chunks=st.lists(st.lists(st.binary(min_size=1, max_size=300), max_size=20), max_size=6),
    kind=KINDS,
    batch_bytes=st.integers(1, 2000),
    batch_records=st.integers(1, 30),
)
def test_what_goes_in_as_arrow_comes_out_as_arrow(
    tmp_path_factory: pytest.TempPathFactory,
    chunks: list[list[bytes]],
    kind: Any,
    batch_bytes: int,
    batch_records: int,
) -> None:
    values = [value for chunk in chunks for value in chunk]
    path = tmp_path_factory.mktemp("property") / "log"
    with aof2.Aof.open(path, segment_bytes=1 << 16) as log:
        done = log.append_arrow(pa.chunked_array(chunks, kind))
        assert done.count == len(values)
        log.flush()
        scan = log.scan_arrow(batch_bytes=batch_bytes, batch_records=batch_records)
        reader = pa.RecordBatchReader.from_stream(scan)
        batches = list(reader)
        assert all(0 < batch.num_rows <= batch_records for batch in batches)
        table = pa.Table.from_batches(batches, reader.schema)
        table.validate(full=True)
        assert table["payload"].to_pylist() == values
        assert table["offset"].to_pylist() == list(range(len(values)))


def test_timestamps_survive_the_round_trip(log: aof2.Aof) -> None:
    stamp = datetime.datetime(2024, 2, 29, 12, 30, 45, 678000, tzinfo=datetime.UTC)
    table = pa.table({"x": [b"a"], "t": pa.array([stamp], pa.timestamp("us", tz="UTC"))})
    log.append_arrow(table, timestamp_column="t")
    log.flush()
    out = pa.table(log.scan_arrow(columns=["timestamp"]))
    assert out["timestamp"].to_pylist() == [stamp]


def test_a_scan_can_be_appended_to_another_log(log: aof2.Aof, tmp_path: Path) -> None:
    for i, value in enumerate(VALUES):
        log.append(value, timestamp_ms=1000 + i, flags=i % 2)
    log.flush()
    with aof2.Aof.open(tmp_path / "copy") as copy:
        scan = log.scan_arrow()
        copy.append_arrow(scan, timestamp_column="timestamp", flags_column="flags")
        copy.flush()
        found = [(bytes(r), r.timestamp_ms, r.flags) for r in copy.scan()]
    assert found == [(value, 1000 + i, i % 2) for i, value in enumerate(VALUES)]


INTERRUPTED = textwrap.dedent(
    """
    import signal, sys, threading
    import pyarrow as pa
    import aof2

    # Far more than can ever be appended: only the signal ends this.
    chunk = pa.array([b"x" * 65536] * 256)
    data = pa.chunked_array([chunk] * 200_000)
    log = aof2.Aof.open(sys.argv[1], segment_bytes=16 << 20, retention_max_bytes=64 << 20)
    main = threading.main_thread().ident

    def interrupt():
        log.wait("appended", 1000)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    try:
        log.append_arrow(data)
    except KeyboardInterrupt as error:
        assert error.appended >= 1000
        assert error.appended == log.watermarks().appended
        print("interrupted")
    log.close()
    """
)


def test_control_c_ends_an_append_and_says_how_far_it_got(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path / "events")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["interrupted"]
