"""Appending, durability and reading, as a single thread sees them."""

from __future__ import annotations

import asyncio
import datetime
import time
from array import array
from typing import TYPE_CHECKING, Any, Literal

import aof2
import numpy
import pyarrow
import pytest
from support import DEADLINE_S, QUIET, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

UTC = datetime.UTC


def payloads(scan: aof2.Scan | aof2.Follow) -> list[bytes]:
    return [bytes(record) for record in scan]


def test_what_was_appended_is_read_back(quiet: aof2.Aof) -> None:
    rid = quiet.append(b"hello", timestamp_ms=1_000, flags=1)
    assert quiet.watermarks() == aof2.Watermarks(appended=1, durable=0)
    appended = quiet.read(rid, visibility="appended")
    quiet.flush(rid)
    assert quiet.watermarks() == aof2.Watermarks(appended=1, durable=1)
    record = quiet.read(rid)
    assert record == appended == quiet.read_offset(0)
    assert (record.id, record.offset, record.timestamp_ms, record.flags) == (rid, 0, 1_000, 1)
    assert bytes(record) == b"hello"


def test_a_writer_reads_what_it_appended_at_once(quiet: aof2.Aof) -> None:
    """It failed with "there is no record" until the record was durable."""
    rid = quiet.append(b"hello")
    assert quiet.watermarks().durable == 0
    for record in (
        quiet.read(rid),
        quiet.try_read(rid),
        quiet.read_offset(0),
        quiet.try_read_offset(0),
    ):
        assert (record.id, bytes(record)) == (rid, b"hello")
    assert payloads(quiet.scan()) == []
    assert payloads(quiet.scan(visibility="appended")) == [b"hello"]


def test_others_are_told_that_a_record_is_only_not_durable_yet(quiet: aof2.Aof) -> None:
    quiet.append(b"durable")
    quiet.flush()
    rid = quiet.append(b"hello")
    reader = aof2.open(quiet.path)
    by_id: list[Callable[[], object]] = [
        lambda: reader.read(rid),
        lambda: reader.try_read(rid),
        lambda: quiet.read(rid, visibility="durable"),
        lambda: quiet.scan(rid),
        lambda: reader.follow(rid),
    ]
    for read in by_id:
        with pytest.raises(aof2.RecordNotFound, match="appended, but not durable yet") as missing:
            read()
        assert missing.value.is_appended
    by_offset: list[Callable[[], object]] = [
        lambda: reader.read_offset(1),
        lambda: reader.try_read_offset(1),
        lambda: quiet.read_offset(1, visibility="durable"),
    ]
    for read_offset in by_offset:
        with pytest.raises(aof2.PastEnd, match="appended, but not durable yet") as past:
            read_offset()
        assert (past.value.offset, past.value.end, past.value.is_appended) == (1, 1, True)
    with pytest.raises(aof2.PastEnd, match="past the end") as past:
        quiet.read_offset(2)
    assert not past.value.is_appended
    with pytest.raises(aof2.RecordNotFound, match="there is no record") as missing:
        quiet.read(aof2.RecordId(rid.segment_index, rid.segment_offset + 8), visibility="durable")
    assert not missing.value.is_appended
    assert bytes(reader.read(rid, visibility="appended")) == b"hello"
    quiet.flush()
    assert bytes(reader.read(rid)) == b"hello"


def test_flush_goes_as_far_as_it_is_told(quiet: aof2.Aof) -> None:
    first = quiet.append(b"first")
    quiet.append(b"second")
    quiet.flush(first)
    assert quiet.watermarks().durable >= 1
    quiet.flush()
    assert quiet.watermarks().durable == 2
    quiet.flush()


def test_a_background_flush_needs_no_asking(log: aof2.Aof) -> None:
    log.append(b"hello")
    assert log.wait("durable", 1)
    assert log.watermarks().durable == 1


def test_a_wait_takes_the_level_first_and_a_record_or_an_offset_behind_it(
    quiet: aof2.Aof,
) -> None:
    first, second = quiet.append(b"first"), quiet.append(b"second")
    quiet.flush(first)
    assert quiet.wait("appended", second, timeout=0)
    assert quiet.wait("durable", first, timeout=0)
    assert quiet.wait(level="durable", offset=1, timeout=0)
    quiet.flush()
    old: Any = quiet
    for until in (second, 2):
        with pytest.warns(DeprecationWarning, match="wait takes the level first") as told:
            assert old.wait(until, "durable", timeout=0)
        # Where the call stands, not somewhere in the package.
        assert told[0].filename == __file__
        with pytest.warns(DeprecationWarning, match="wait takes the level first"):
            waiting = old.wait_async(until, "durable")
        waiting.close()


def test_a_wait_without_a_flush_times_out(quiet: aof2.Aof) -> None:
    quiet.append(b"hello")
    assert quiet.wait("appended", 1, timeout=0)
    assert not quiet.wait("durable", 1, timeout=0)
    assert not quiet.wait("durable", 1, timeout=0.06)
    quiet.flush()
    assert quiet.wait("durable", 1, timeout=0)


@pytest.mark.parametrize(
    "payload",
    [
        bytearray(b"hello"),
        memoryview(b"hello"),
        memoryview(b"-hello-")[1:-1],
        memoryview(bytearray(b"hello")),
        array("B", b"hello"),
        numpy.frombuffer(b"hello", numpy.uint8),
        numpy.frombuffer(b"-hello", numpy.uint8)[1:],
        aof2.Record(aof2.RecordId(0, 0), 0, 0, 0, b"hello"),
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_payloads_are_anything_bytes_like(quiet: aof2.Aof, payload: bytes) -> None:
    ids = [
        quiet.append(payload),
        quiet.try_append(payload),
        *quiet.append_many([payload, payload]),
    ]
    assert [bytes(quiet.read(rid, visibility="appended")) for rid in ids] == [b"hello"] * 4


def test_wide_items_are_appended_as_their_bytes(quiet: aof2.Aof) -> None:
    matrix: Any = numpy.arange(12, dtype=numpy.int64).reshape(3, 4)
    rid = quiet.append(matrix)
    found = numpy.frombuffer(quiet.read(rid, visibility="appended").payload, numpy.int64)
    assert (found.reshape(3, 4) == matrix).all()


@pytest.mark.parametrize("size", [1, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1])
@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_payloads_of_any_size(tmp_path: Path, size: int, kind: type[bytes]) -> None:
    with aof2.Aof.open(tmp_path / "events", segment_bytes=4 << 20) as log:
        payload = kind(i & 255 for i in range(size))
        rid = log.append(payload)
        log.flush(rid)
        assert log.read(rid).payload == payload


def test_the_longest_payload_fits_and_one_byte_more_does_not(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:
        longest = bytes(log.payload_len_max)
        rid = log.append(longest)
        ids = log.append_many([longest, longest])
        log.flush()
        assert [len(log.read(r)) for r in (rid, *ids)] == [len(longest)] * 3
        for append in (log.append, log.try_append):
            with pytest.raises(aof2.InvalidRecord, match=str(log.payload_len_max)):
                append(longest + b"!")
        with pytest.raises(aof2.InvalidRecord, match=r"payloads\[1\]"):
            log.append_many([b"x", longest + b"!"])
        assert log.watermarks().appended == 3


def test_append_many_takes_any_iterable(quiet: aof2.Aof) -> None:
    def generate() -> Iterator[bytes]:
        for i in range(5000):
            yield b"%d" % i

    sources = [[b"a", b"b"], (b"c",), generate(), iter([b"d"]), {b"e": 1}, range(0)]
    counts = [len(quiet.append_many(source)) for source in sources]  # type: ignore[arg-type]
    assert counts == [2, 1, 5000, 1, 1, 0]
    found = payloads(quiet.scan(visibility="appended"))
    assert found == [b"a", b"b", b"c", *generate(), b"d", b"e"]


def test_append_many_crosses_segments(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:
        given = [bytes([i % 251]) * (i * 7 % 3000 + 1) for i in range(500)]
        ids = log.append_many(given)
        log.flush()
        assert len({rid.segment_index for rid in ids}) > 5
        assert list(ids) == sorted(ids)
        assert [bytes(log.read(rid)) for rid in ids] == given
        assert payloads(log.scan()) == given
        # Batches are a small part of a segment, so little of it stays unused.
        used = [s.used_bytes for s in log.segments() if s.is_sealed]
        assert min(used) > 48 << 10


def test_a_failing_append_many_tells_what_is_in_the_log(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **SMALL) as log:

        def broken() -> Iterator[bytes]:
            for _ in range(100):
                yield bytes(1000)
            raise LookupError("no more")

        with pytest.raises(LookupError, match="no more") as raised:
            log.append_many(broken())
        appended = raised.value.appended  # type: ignore[attr-defined]
        assert isinstance(appended, aof2.RecordIds)
        assert 0 < len(appended) == log.watermarks().appended < 100

        with pytest.raises(TypeError, match=r"payloads\[100\]") as wrong:
            log.append_many([bytes(1000)] * 100 + [7])  # type: ignore[list-item]
        assert len(appended) + len(wrong.value.appended) == log.watermarks().appended  # type: ignore[attr-defined]


def test_scans_take_offsets_ids_and_moments(quiet: aof2.Aof) -> None:
    ids = [quiet.append(b"%d" % i, timestamp_ms=1_000 * i) for i in range(6)]
    quiet.flush()
    at = [datetime.datetime.fromtimestamp(i, UTC) for i in range(6)]
    for start in (2, ids[2], at[2], at[1] + datetime.timedelta(microseconds=1)):
        for end in (4, ids[4], at[4], at[3] + datetime.timedelta(microseconds=999)):
            assert payloads(quiet.scan(start, end)) == [b"2", b"3"], (start, end)
    assert payloads(quiet.scan("latest")) == []
    assert payloads(quiet.scan(end=1)) == [b"0"]
    assert payloads(quiet.scan(6)) == []
    assert payloads(quiet.scan(3, 3)) == []
    assert payloads(quiet.scan(4, 2)) == []
    assert payloads(quiet.scan(5, 1 << 60)) == [b"5"]
    elsewhere = at[2].astimezone(datetime.timezone(datetime.timedelta(hours=-7)))
    assert payloads(quiet.scan(elsewhere, 3)) == [b"2"]
    long_ago = datetime.datetime(1, 1, 1, tzinfo=UTC)
    assert len(payloads(quiet.scan(long_ago))) == 6
    far = datetime.datetime.max.replace(tzinfo=UTC)
    assert payloads(quiet.scan(far)) == []


def test_offset_at_finds_the_first_record_not_before(quiet: aof2.Aof) -> None:
    for ms in (1_000, 2_000, 3_000):
        quiet.append(b"x", timestamp_ms=ms)
    assert quiet.offset_at(0, visibility="appended") == 0
    assert quiet.offset_at(0) == 0
    quiet.flush()
    assert [quiet.offset_at(ms) for ms in (0, 1_000, 1_001, 3_000, 3_001)] == [0, 0, 1, 2, 3]
    moment = datetime.datetime.fromtimestamp(2, UTC)
    assert quiet.offset_at(moment) == 1
    assert quiet.offset_at(moment + datetime.timedelta(microseconds=1)) == 2


def test_a_scan_says_where_it_is(quiet: aof2.Aof) -> None:
    quiet.append_many(b"%d" % i for i in range(3000))
    quiet.flush()
    scan = quiet.scan(5)
    assert scan.next_offset == 5
    for offset, record in enumerate(scan, start=5):
        assert record.offset == offset
        assert scan.next_offset == offset + 1
    assert scan.next_offset == 3000
    assert scan.skipped == 0
    assert next(scan, None) is None


@pytest.mark.parametrize("end", [None, "now"])
def test_a_scan_ends_where_the_log_ended_when_it_started(
    quiet: aof2.Aof, end: Literal["now"] | None
) -> None:
    quiet.append(b"first")
    quiet.flush()
    scan, arrow = quiet.scan("earliest", end), quiet.scan_arrow("earliest", end)
    quiet.append(b"second")
    quiet.flush()
    assert payloads(scan) == [b"first"]
    assert pyarrow.table(arrow).num_rows == 1
    assert payloads(scan) == []
    assert payloads(quiet.scan("latest", end)) == []


@pytest.mark.parametrize("visibility", ["durable", "appended"])
def test_a_log_can_be_appended_to_itself(
    log: aof2.Aof, visibility: Literal["durable", "appended"]
) -> None:
    """The scan saw what it caused to be appended, and never ended."""
    # More than append_many takes at a time, so that it appends while it reads.
    log.append_many(bytes(8192) for _ in range(300))
    log.flush()

    def read() -> Iterator[aof2.Record]:
        for count, record in enumerate(log.scan(visibility=visibility)):
            assert count < 300, "it does not end"
            if count % 50 == 0:
                log.flush()
            yield record

    assert len(log.append_many(read())) == 300
    log.flush()
    appended = log.append_arrow(log.scan_arrow(visibility=visibility), column="payload")
    assert (appended.first_offset, appended.count) == (600, 600)


def test_a_follower_can_end_now(quiet: aof2.Aof) -> None:
    quiet.append(b"first")
    quiet.flush()
    follow = quiet.follow("earliest", "now")
    quiet.append(b"second")
    quiet.flush()
    assert payloads(follow) == [b"first"]


def test_follow_hands_out_what_is_there_and_then_waits(quiet: aof2.Aof) -> None:
    quiet.append(b"old")
    quiet.flush()
    latest = quiet.follow(timeout=0)
    all_of_it = quiet.follow("earliest", timeout=0)
    assert payloads(latest) == []
    assert payloads(all_of_it) == [b"old"]
    quiet.append(b"new")
    assert payloads(latest) == []
    quiet.flush()
    assert payloads(latest) == payloads(all_of_it) == [b"new"]
    assert latest.next_offset == 2
    assert latest.skipped == 0


def test_follow_ends_where_it_is_told(quiet: aof2.Aof) -> None:
    quiet.append_many([b"a", b"b", b"c"])
    quiet.flush()
    assert payloads(quiet.follow("earliest", 2)) == [b"a", b"b"]


def test_follow_ends_when_the_log_is_closed_if_told_so(tmp_path: Path) -> None:
    log = aof2.Aof.open(tmp_path / "events", **QUIET)
    reader = aof2.open(log.path)
    follow, other = log.follow(), reader.follow(until_closed=True)
    log.append(b"last words")
    log.close()
    # Nothing comes through the writer's own handle any more.
    assert payloads(follow) == [b"last words"]
    assert payloads(other) == [b"last words"]


@pytest.mark.parametrize("visibility", ["durable", "appended"])
def test_a_follower_goes_on_with_the_next_writer(
    tmp_path: Path, visibility: Literal["durable", "appended"]
) -> None:
    """It ended at once when the writer closed the log, whatever its timeout."""
    path = tmp_path / "events"
    aof2.Aof.open(path).close()
    follow = aof2.open(path).follow(timeout=0.01, visibility=visibility)
    patient = aof2.open(path).follow(timeout=DEADLINE_S, visibility=visibility)
    for i in range(3):
        before = time.monotonic()
        assert payloads(follow) == []
        assert time.monotonic() - before >= 0.01
        with aof2.Aof.open(path) as log:
            log.append(b"%d" % i)
        assert bytes(next(patient)) == b"%d" % i
        assert payloads(follow) == [b"%d" % i]


def test_an_async_follower_goes_on_with_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "events"
    aof2.Aof.open(path).close()

    async def main() -> None:
        follow = aof2.open(path).follow(timeout=DEADLINE_S)
        for i in range(2):
            waiting = asyncio.ensure_future(anext(follow))
            await asyncio.sleep(0)
            with aof2.Aof.open(path) as log:
                log.append(b"%d" % i)
            assert bytes(await waiting) == b"%d" % i
        short = aof2.open(path).follow(timeout=0.01)
        before = time.monotonic()
        assert [record async for record in short] == []
        assert time.monotonic() - before >= 0.01
        ending = aof2.open(path).follow("earliest", until_closed=True)
        assert [bytes(record) async for record in ending] == [b"0", b"1"]

    asyncio.run(main())


def test_a_closed_follow_has_ended(quiet: aof2.Aof) -> None:
    quiet.append_many([b"a", b"b"])
    quiet.flush()
    follow = quiet.follow("earliest")
    assert bytes(next(follow)) == b"a"
    follow.close()
    assert payloads(follow) == []
    follow.close()


def test_segments_seal_and_ext_id(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", ext_id=7, **QUIET) as log:
        log.append(b"one", timestamp_ms=5)
        (active,) = log.segments()
        assert not active.is_sealed
        assert (active.ext_id, active.last_timestamp_ms, active.damage) == (None, None, None)
        log.seal()
        log.seal()
        log.set_ext_id(8)
        log.append_many([b"two", b"three"])
        log.seal()
        first, second = log.segments()
        assert (first.ext_id, first.record_count, first.last_timestamp_ms) == (7, 1, 5)
        assert (second.ext_id, second.record_count, second.first_offset) == (8, 2, 1)
        assert first.is_sealed
        assert second.is_sealed
        assert second.created_ms >= first.created_ms > 1_600_000_000_000
        assert 0 < first.used_bytes < first.file_bytes
        assert first.path.startswith(log.path)


def test_the_compact_format_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with aof2.Aof.open(path, format="compact") as log:
        assert log.format == "compact"
        log.append(b"small")
        with pytest.raises(aof2.InvalidRecord, match="flags"):
            log.append(b"x", flags=1)
        with pytest.raises(aof2.InvalidConfig, match="ext_id"):
            log.set_ext_id(1)
    with aof2.Aof.open(path) as log:
        assert log.format == "compact"
        assert payloads(log.scan()) == [b"small"]
    with aof2.open(path) as reader:
        assert reader.format == "compact"


def test_a_log_has_a_name_and_an_id_for_life(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", name="orders") as log:
        stream_id = log.stream_id
        assert (log.name, log.path) == ("orders", str(tmp_path / "events"))
    (tmp_path / "events").rename(tmp_path / "moved")
    with aof2.Aof.open(tmp_path / "moved") as log:
        assert (log.name, log.stream_id) == ("orders", stream_id)
    with aof2.Aof.open(tmp_path / "other", name="orders") as log:
        # Another log, whatever it is called.
        assert log.stream_id != stream_id


def test_paths_stay_right_when_the_working_directory_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with aof2.Aof.open("events") as log:
        log.append(b"x")
        assert log.path == str(tmp_path / "events")
        monkeypatch.chdir("/")
        log.seal()
    with aof2.open(log.path) as reader:
        assert payloads(reader.scan()) == [b"x"]


def test_segments_grow_within_their_window(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "window", segment_bytes_max=64 << 10) as log:
        log.append(b"x")
        assert log.segments()[0].file_bytes == 64 << 10
    with aof2.Aof.open(tmp_path / "fixed", segment_bytes=128 << 10) as log:
        log.append(b"x")
        assert log.segments()[0].file_bytes == 128 << 10


def test_retention_deletes_and_archives(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", **QUIET) as log:
        for i in range(4):
            log.append(b"%d" % i, timestamp_ms=1_000 + i)
            log.seal()
        report = log.apply_retention(before_offset=1)
        assert (report.record_count, report.earliest_offset, report.held_back) == (1, 1, False)
        assert not report.segments[0].path or not (tmp_path / report.segments[0].path).exists()
        report = log.apply_retention(before_offset=2, action="archive")
        assert report.earliest_offset == log.earliest_offset() == 2
        assert len(list((tmp_path / "events" / "archive").iterdir())) == 1
        with pytest.raises(aof2.Trimmed) as trimmed:
            log.scan(1)
        assert trimmed.value.earliest == 2
        held = log.read_offset(2)
        assert log.apply_retention(max_bytes=1).held_back
        assert bytes(held) == b"2"
        assert log.apply_retention().segments == []
        metrics = log.metrics()
        assert (metrics["segments_removed"], metrics["segments_archived"]) == (1, 1)
        assert payloads(log.scan()) == [b"2", b"3"]


def test_metrics_are_plain(log: aof2.Aof) -> None:
    log.append_many([b"x"] * 10)
    log.flush()
    metrics = log.metrics()
    assert type(metrics) is dict
    assert metrics["stream"] == "events"
    assert metrics["appended_records"] == metrics["durable_records"] == 10
    assert metrics["poisoned"] is False
    assert set(metrics["flush_ns"]) == {"count", "sum", "p50", "p99", "max"}
    assert metrics["flush_ns"]["count"] == metrics["flushes"] >= 1
    assert 'aof2_durable_records_total{stream="events"} 10' in log.metrics_text().splitlines()


def test_backpressure_refuses_and_then_lets_pass(tmp_path: Path) -> None:
    """A record that was refused was not written, and one that waited is there once."""
    with aof2.Aof.open(tmp_path / "events", segment_bytes=64 << 10, preallocate_segments=0) as log:
        refused = 0
        for i in range(300):
            payload = b"%05d" % i + bytes(4000)
            try:
                log.try_append(payload)
            except aof2.WouldBlock as error:
                assert error.kind in {"admission", "rollover", "flush"}
                refused += 1
                log.append(payload, timeout=120)
        log.flush()
        assert refused > 0
        assert [int(bytes(r.payload[:5])) for r in log.scan()] == list(range(300))


def test_warm_up_changes_nothing_one_can_see(quiet: aof2.Aof) -> None:
    quiet.append(b"x")
    quiet.warm_up()
    assert payloads(quiet.scan(visibility="appended")) == [b"x"]
