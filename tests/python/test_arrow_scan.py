"""Reading a log as Arrow batches."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aof2._types import Visibility

COLUMNS = ["stream", "segment_id", "offset", "record_id", "timestamp", "flags", "payload"]
VALUES = [bytes([i % 256]) * (1 + i * 37 % 3000) for i in range(500)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[aof2.Aof]:
    """A log of 500 records in several segments."""
    with aof2.Aof.open(tmp_path / "events", segment_bytes=1 << 16) as log:
        for i, value in enumerate(VALUES):
            log.append(value, timestamp_ms=1_000 + i, flags=i % 4)
        log.flush()
        yield log


def read(scan: aof2.ArrowScan) -> Any:
    table = pa.table(scan)
    table.validate(full=True)
    return table


def test_every_column_says_what_the_record_says(log: aof2.Aof) -> None:
    table = read(log.scan_arrow(columns=COLUMNS))
    records = list(log.scan())
    assert table["stream"].to_pylist() == ["events"] * 500
    assert table["segment_id"].to_pylist() == [r.id.segment_index for r in records]
    assert table["offset"].to_pylist() == [r.offset for r in records]
    assert table["record_id"].to_pylist() == [int(r.id) for r in records]
    assert table["timestamp"].to_pylist() == [r.timestamp for r in records]
    assert table["flags"].to_pylist() == [r.flags for r in records]
    assert table["payload"].to_pylist() == VALUES


def test_the_schema_is_what_readers_rely_on(log: aof2.Aof) -> None:
    scan = log.scan_arrow(columns=COLUMNS)
    fields = {
        "stream": pa.utf8(),
        "segment_id": pa.int64(),
        "offset": pa.int64(),
        "record_id": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "flags": pa.int32(),
        "payload": pa.binary(),
    }
    expected = pa.schema([pa.field(n, kind, nullable=False) for n, kind in fields.items()])
    assert pa.schema(scan) == expected
    assert read(scan).schema == expected
    assert pa.schema(log.scan_arrow()).names == COLUMNS[1:]


def test_columns_come_as_asked_and_in_that_order(log: aof2.Aof) -> None:
    for columns in (["payload"], ["payload", "offset"], ["flags", "stream"], COLUMNS[::-1]):
        assert read(log.scan_arrow(columns=columns)).column_names == columns


def test_columns_that_make_no_sense_are_refused_with_the_ones_there_are(log: aof2.Aof) -> None:
    for columns in (["offset", "key"], ["offset", "offset"], []):
        with pytest.raises(ValueError, match=", ".join(COLUMNS)):
            log.scan_arrow(columns=columns)


def test_ranges_limits_and_progress(log: aof2.Aof) -> None:
    scan = log.scan_arrow(100, 200, columns=["offset"], batch_records=30)
    assert scan.next_offset == 100
    reader = pa.RecordBatchReader.from_stream(scan)
    batches = list(reader)
    assert [n for batch in batches for n in batch["offset"].to_pylist()] == list(range(100, 200))
    assert all(batch.num_rows <= 30 for batch in batches)
    assert (scan.next_offset, scan.skipped, scan.error) == (200, 0, None)


def test_batches_are_pulled_one_by_one(log: aof2.Aof) -> None:
    scan = log.scan_arrow(batch_records=7)
    reader = pa.RecordBatchReader.from_stream(scan)
    first = reader.read_next_batch()
    assert (first.num_rows, scan.next_offset) == (7, 7)
    reader.close()
    assert scan.next_offset == 7


def test_batch_bytes_bounds_a_batch(log: aof2.Aof) -> None:
    longest = max(map(len, VALUES))
    batches = list(pa.RecordBatchReader.from_stream(log.scan_arrow(batch_bytes=8_000)))
    sizes = [sum(map(len, batch["payload"].to_pylist())) for batch in batches]
    assert sum(sizes) == sum(map(len, VALUES))
    assert max(sizes) <= 2 * (8_000 + longest)


def test_a_record_longer_than_a_batch_is_a_batch(log: aof2.Aof) -> None:
    batches = list(pa.RecordBatchReader.from_stream(log.scan_arrow(batch_bytes=1)))
    assert [batch.num_rows for batch in batches] == [1] * 500


def test_an_empty_scan_has_a_schema_and_no_batch(log: aof2.Aof) -> None:
    table = read(log.scan_arrow("latest"))
    assert (table.num_rows, table.column_names) == (0, COLUMNS[1:])


def test_only_durable_records_unless_asked(tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"flush_interval_ms": 0, "flush_bytes": 1 << 30}
    with aof2.Aof.open(tmp_path / "quiet", **quiet) as log:
        log.append(b"durable")
        log.flush()
        log.append(b"appended")
        assert read(log.scan_arrow())["payload"].to_pylist() == [b"durable"]
        seen = read(log.scan_arrow(visibility="appended"))
        assert seen["payload"].to_pylist() == [b"durable", b"appended"]


def test_a_scan_is_consumed_once(log: aof2.Aof) -> None:
    scan = log.scan_arrow()
    read(scan)
    with pytest.raises(RuntimeError, match=r"consumed already; call scan_arrow\(\) again"):
        pa.table(scan)
    assert pa.schema(scan).names == COLUMNS[1:]


def test_a_stream_nobody_reads_is_just_dropped(log: aof2.Aof) -> None:
    capsule = log.scan_arrow().__arrow_c_stream__()
    del capsule
    reader = pa.RecordBatchReader.from_stream(log.scan_arrow(batch_records=1))
    reader.read_next_batch()
    del reader
    gc.collect()


def test_a_reader_scans_like_the_writer(log: aof2.Aof) -> None:
    with aof2.open(log.path) as reader:
        assert read(reader.scan_arrow()).equals(read(log.scan_arrow()))


def test_batches_outlive_the_scan_the_log_and_retention(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events", segment_bytes=1 << 16)
    log.append_arrow(pa.array(VALUES))
    log.seal()
    reader = pa.RecordBatchReader.from_stream(log.scan_arrow(batch_records=50))
    batches = list(reader)
    log.apply_retention(before_offset=len(VALUES))
    log.close()
    del reader, log
    gc.collect()
    assert [v for batch in batches for v in batch["payload"].to_pylist()] == VALUES


def test_a_batch_that_is_kept_does_not_change_when_others_are_released(log: aof2.Aof) -> None:
    # Released buffers are used again, so a kept one must not be among them.
    reader = pa.RecordBatchReader.from_stream(log.scan_arrow(batch_records=10))
    kept = []
    start = 0
    for i, batch in enumerate(reader):
        if i % 3 == 0:
            kept.append((start, batch))
        elif i % 3 == 1:
            kept.append((start + 1, batch.slice(1)))
        start += batch.num_rows
        del batch
    for start, batch in kept:
        batch.validate(full=True)
        values = batch["payload"].to_pylist()
        assert values == VALUES[start : start + len(values)]
        assert batch["offset"].to_pylist() == list(range(start, start + len(values)))


def test_a_closed_writer_gives_no_stream_and_ends_one_with_its_error(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events")
    log.append_arrow(pa.array(VALUES))
    log.flush()
    waiting = log.scan_arrow()
    begun = log.scan_arrow(batch_records=1)
    reader = pa.RecordBatchReader.from_stream(begun)
    reader.read_next_batch()
    log.close()
    with pytest.raises(aof2.Closed):
        waiting.__arrow_c_stream__()
    with pytest.raises(pa.ArrowException, match="the log is closed"):
        reader.read_next_batch()
    assert isinstance(begun.error, aof2.Closed)
    with pytest.raises(aof2.Closed):
        log.scan_arrow()


def damaged(tmp_path: Path, record: int) -> Path:
    """A closed log of 20 records, one of which has a flipped bit."""
    path = tmp_path / "damaged"
    with aof2.Aof.open(path) as log:
        log.append_many([b"record %02d " % i + b"x" * 100 for i in range(20)])
        log.seal()
        file = Path(log.segments()[0].path)
    content = bytearray(file.read_bytes())
    content[content.index(b"record %02d " % record) + 50] ^= 1
    file.write_bytes(content)
    return path


# The last one puts a batch together from several parts, and the damage lies between them.
@pytest.mark.parametrize("batch_records", [1, 4, 64, 65_536])
def test_damage_ends_the_stream_behind_what_is_intact(tmp_path: Path, batch_records: int) -> None:
    with aof2.open(damaged(tmp_path, 10)) as log:
        scan = log.scan_arrow(batch_records=batch_records)
        reader = pa.RecordBatchReader.from_stream(scan)
        offsets: list[int] = []
        with pytest.raises(OSError, match="record 10 is affected"):
            offsets.extend(n for batch in reader for n in batch["offset"].to_pylist())
        assert offsets == list(range(10))
        assert isinstance(scan.error, aof2.Corrupt)
        assert scan.error.records == (10, 11)
        assert scan.next_offset == 10
        with pytest.raises(OSError, match="record 10 is affected"):
            # Asked again it fails again, instead of pretending to be complete.
            reader.read_next_batch()


def test_damage_can_be_skipped_and_is_counted(tmp_path: Path) -> None:
    with aof2.open(damaged(tmp_path, 10)) as log:
        scan = log.scan_arrow(on_corruption="skip", columns=["offset"])
        offsets = read(scan)["offset"].to_pylist()
        assert offsets == [n for n in range(20) if n != 10]
        assert (scan.skipped, scan.next_offset, scan.error) == (1, 20, None)


def test_checksums_need_not_be_verified(tmp_path: Path) -> None:
    with aof2.open(damaged(tmp_path, 10)) as log:
        scan = log.scan_arrow(verify_checksums=False, columns=["offset"])
        assert read(scan)["offset"].to_pylist() == list(range(20))


@pytest.fixture
def quiet_log(tmp_path: Path) -> Iterator[aof2.Aof]:
    """Records in several segments; the last two of them are not durable."""
    options: dict[str, Any] = {"flush_interval_ms": 0, "flush_bytes": 1 << 30}
    with aof2.Aof.open(tmp_path / "events", segment_bytes=1 << 16, **options) as log:
        log.append_many(VALUES)
        log.flush()
        log.append_many([b"not durable yet", b"nor this"])
        yield log


RUN_COLUMNS = ["offset", "segment_id", "stream"]


@pytest.mark.parametrize("visibility", ["durable", "appended"])
@pytest.mark.parametrize("batch_records", [1, 7, 64, 65_536])
def test_offsets_that_footers_tell_are_those_of_the_records(
    quiet_log: aof2.Aof, batch_records: int, visibility: Visibility
) -> None:
    log = quiet_log
    options: Any = {"columns": RUN_COLUMNS, "visibility": visibility}
    for start, end in ((0, None), (3, 499), (120, 121), (77, 77), (250, 10_000)):
        expected = read(log.scan_arrow(start, end, **options))
        scan = log.scan_arrow(
            start, end, verify_checksums=False, batch_records=batch_records, **options
        )
        reached = start
        offsets: list[int] = []
        segments: list[int] = []
        for batch in pa.RecordBatchReader.from_stream(scan):
            assert 0 < batch.num_rows <= batch_records
            reached += batch.num_rows
            # Where to go on is right behind every batch, also inside a segment.
            assert scan.next_offset == reached
            offsets += batch["offset"].to_pylist()
            segments += batch["segment_id"].to_pylist()
            assert set(batch["stream"].to_pylist()) == {"events"}
        assert offsets == expected["offset"].to_pylist()
        assert segments == expected["segment_id"].to_pylist()


def test_ranges_by_time_and_id_end_where_they_should_for_offsets_too(log: aof2.Aof) -> None:
    records = list(log.scan())
    for end in (records[333].timestamp, records[333].id):
        scan = log.scan_arrow(10, end, columns=["offset"], verify_checksums=False)
        assert read(scan)["offset"].to_pylist() == list(range(10, 333))
        assert scan.next_offset == 333


def test_offsets_alone_are_told_by_the_footer_of_a_sealed_segment(tmp_path: Path) -> None:
    """Records are not looked at, not even a header, unless the options need them."""
    path = damaged(tmp_path, 10)
    file = next((path / "segments").glob("*.seg"))
    content = bytearray(file.read_bytes())
    header = content.index(b"record 05 ") - 32
    content[header : header + 32] = bytes(32)
    file.write_bytes(content)
    with aof2.open(path) as log:
        unverified = log.scan_arrow(verify_checksums=False, columns=RUN_COLUMNS)
        assert read(unverified)["offset"].to_pylist() == list(range(20))
        assert unverified.error is None
        for columns, verify in ((["offset"], True), (["offset", "timestamp"], False)):
            scan = log.scan_arrow(verify_checksums=verify, columns=columns)
            with pytest.raises(OSError, match="record"):
                read(scan)
            assert isinstance(scan.error, aof2.Corrupt)
        skipping = log.scan_arrow(on_corruption="skip", verify_checksums=False, columns=["offset"])
        assert 5 not in read(skipping)["offset"].to_pylist()
        assert skipping.skipped > 0


def test_offsets_that_a_repair_took_away_stay_away(tmp_path: Path) -> None:
    path = damaged(tmp_path, 10)
    aof2.repair(path)
    with aof2.open(path) as log:
        scan = log.scan_arrow(verify_checksums=False, columns=["offset"])
        assert read(scan)["offset"].to_pylist() == [n for n in range(20) if n != 10]


def test_a_missing_segment_ends_offsets_behind_those_before_it(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", segment_bytes=1 << 16) as log:
        log.append_many(VALUES)
        log.seal()
        _, missing, *_ = log.segments()
    Path(missing.path).unlink()
    with aof2.open(tmp_path / "events") as reader:
        scan = reader.scan_arrow(verify_checksums=False, columns=["offset"])
        batches = pa.RecordBatchReader.from_stream(scan)
        assert batches.read_next_batch()["offset"].to_pylist() == list(range(missing.first_offset))
        with pytest.raises(OSError, match=str(missing.first_offset)):
            batches.read_next_batch()
        assert isinstance(scan.error, aof2.Corrupt)
        assert scan.next_offset == missing.first_offset


def test_threads_scan_side_by_side(log: aof2.Aof) -> None:
    expected = read(log.scan_arrow())
    results: list[bool] = []

    def work() -> None:
        results.extend(read(log.scan_arrow(batch_records=n)).equals(expected) for n in range(1, 40))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 39 * 4


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon in /proc/self/status")


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "big") as log:
        chunk = pa.array([b"x" * 1024] * 16_384)
        for _ in range(8):
            log.append_arrow(chunk)
        log.flush()
        reader = pa.RecordBatchReader.from_stream(log.scan_arrow())
        rows = reader.read_next_batch().num_rows
        before = resident_bytes()
        for batch in reader:
            rows += batch.num_rows
        assert rows == 8 * 16_384
        # Of 128 MiB scanned, no more than a few batches may stay.
        assert resident_bytes() - before < 32 << 20


def test_a_forked_child_gets_an_error_instead_of_the_parents_log(log: aof2.Aof) -> None:
    scan = log.scan_arrow(batch_records=1)
    reader = pa.RecordBatchReader.from_stream(scan)
    reader.read_next_batch()
    waiting = log.scan_arrow()
    with warnings.catch_warnings():
        # Newer Pythons warn of forking with threads; this is about surviving it.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                waiting.__arrow_c_stream__()
            except aof2.ForkedHandle:
                try:
                    reader.read_next_batch()
                except pa.ArrowException:
                    code = 0 if isinstance(scan.error, aof2.ForkedHandle) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert reader.read_next_batch()["offset"].to_pylist() == [1]


def test_polars_reads_a_scan_and_a_log_takes_a_frame(log: aof2.Aof, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(log.scan_arrow())
    assert frame["payload"].to_list() == VALUES
    assert frame["offset"].to_list() == list(range(500))
    with aof2.Aof.open(tmp_path / "copy") as copy:
        copy.append_arrow(frame, timestamp_column="timestamp")
        copy.append_arrow(frame["payload"])
        copy.flush()
        assert [bytes(record) for record in copy.scan()] == VALUES * 2


def test_duckdb_reads_a_scan_and_a_log_takes_a_result(log: aof2.Aof, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        scan = log.scan_arrow()
        connection.register("scan", scan)
        query = 'select count(*), sum(octet_length(payload)), max("offset") from scan'
        assert connection.execute(query).fetchall() == [(500, sum(map(len, VALUES)), 499)]
        result = connection.sql("select 'row ' || i as text from range(10) t(i)")
        with aof2.Aof.open(tmp_path / "copy") as copy:
            copy.append_arrow(result)
            copy.flush()
            assert [bytes(record) for record in copy.scan()] == [b"row %d" % i for i in range(10)]
