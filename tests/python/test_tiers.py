"""Hot and warm segments: within a budget, and read wherever they are."""

from __future__ import annotations

import copy
import pickle
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import pyarrow as pa
import pytest
from support import SMALL, run_program, start_program, wait_until
from test_interrupt import interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIRST_MS = 1_700_000_000_000
PER_SEGMENT = 40
SEGMENTS = 6


def payload(number: int) -> bytes:
    """Text that compresses, and that tells its number at every byte."""
    return b"%08d " % number * (20 + number % 7)


def fill(log: aof2.Aof, segment_count: int = SEGMENTS) -> list[aof2.RecordId]:
    """Append records a millisecond apart, in so many sealed segments."""
    ids = []
    for _ in range(segment_count):
        for _ in range(PER_SEGMENT):
            number = log.watermarks().appended
            ids.append(log.append(payload(number), timestamp_ms=FIRST_MS + number))
        log.seal()
    return ids


def warm_files(log: aof2.ReadableLog) -> list[Path]:
    return sorted(Path(log.path, "warm").glob("*.zst"))


def residencies(log: aof2.ReadableLog) -> list[str]:
    return [s.residency for s in log.segments() if s.is_sealed]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[aof2.Aof]:
    """A log with tiers, and room for everything."""
    with aof2.Aof.open(tmp_path / "events", tiers=aof2.Tiers(), **SMALL) as log:
        yield log


@pytest.fixture
def mixed(log: aof2.Aof) -> aof2.Aof:
    """Every other segment is warm, and a few records are in an unsealed one."""
    fill(log)
    for segment_id in range(0, SEGMENTS, 2):
        log.evict(segment_id)
    for _ in range(3):
        number = log.watermarks().appended
        log.append(payload(number), timestamp_ms=FIRST_MS + number)
    log.flush()
    assert residencies(log) == ["warm", "hot"] * (SEGMENTS // 2)
    return log


# ---- the budget --------------------------------------------------------------


def hot_bytes_of(log: aof2.Aof) -> int:
    """The bytes that count, by what is on disk: sealed segments as used, others whole."""
    hot = [s for s in log.segments() if s.residency == "hot"]
    return sum(s.used_bytes if s.is_sealed else s.file_bytes for s in hot)


def test_the_budget_holds_after_much_more_was_written(tmp_path: Path) -> None:
    tiers = aof2.Tiers(hot_bytes=256 << 10)
    with aof2.Aof.open(tmp_path / "events", tiers=tiers, **SMALL) as log:
        count = 40_000
        log.append_many(payload(n) for n in range(count))
        log.flush()
        written = sum(s.used_bytes for s in log.segments())
        assert written > 20 * tiers.hot_bytes

        def is_within_budget() -> bool:
            status = log.tiers()
            is_counted = status.metrics.evictions == status.evicted_segments
            return is_counted and status.hot_bytes <= tiers.hot_bytes

        wait_until(is_within_budget, "the budget to hold")
        status = log.tiers()
        assert status.hot_bytes == hot_bytes_of(log)
        assert status.evicted_segments == residencies(log).count("warm") > 50
        assert status.warm_segments == len(warm_files(log))
        assert status.warm_bytes == sum(f.stat().st_size for f in warm_files(log))
        assert status.warm_bytes < written / 3
        assert status.metrics.failures == 0
        # A file for each hot segment, and no file for a warm one.
        for segment in log.segments():
            assert Path(segment.path).exists() == (segment.residency == "hot")
        assert [bytes(r) for r in log.scan()] == [payload(n) for n in range(count)]


def write_until_sealed(log: aof2.Aof, segment_count: int) -> None:
    """Fill so many segments, and begin the next one."""
    while len(log.segments()) <= segment_count:
        log.append(bytes(4_000))
    wait_until(lambda: len(residencies(log)) == segment_count, "the footer")


def test_what_was_read_longest_ago_leaves_first(tmp_path: Path) -> None:
    # The segment being written, and four and a half behind it.
    tiers = aof2.Tiers(hot_bytes=352 << 10)

    with aof2.Aof.open(tmp_path / "events", tiers=tiers, **SMALL) as log:
        write_until_sealed(log, 4)
        log.flush()
        log.read_offset(0)
        assert residencies(log) == ["hot"] * 4
        write_until_sealed(log, 5)
        wait_until(lambda: "warm" in residencies(log), "one to leave")
        assert residencies(log) == ["hot", "warm", "hot", "hot", "hot"]


def test_a_limit_of_its_own_does_not_touch_other_logs(tmp_path: Path) -> None:
    with aof2.AofManager(tiers=aof2.Tiers(hot_bytes=1 << 30)) as manager:
        small = manager.open(tmp_path / "small", hot_bytes=1, **SMALL)
        large = manager.open(tmp_path / "large", **SMALL)
        for log in (small, large):
            fill(log, 3)
        wait_until(lambda: residencies(small) == ["warm"] * 3, "all to leave")
        assert residencies(large) == ["hot"] * 3
        assert small.tiers().stream_hot_bytes_max == 1
        assert large.tiers().stream_hot_bytes_max is None
        assert small.tiers().hot_bytes_max == large.tiers().hot_bytes_max == 1 << 30


def test_logs_of_a_manager_share_its_budget(tmp_path: Path) -> None:
    with aof2.AofManager(tiers=aof2.Tiers(hot_bytes=1)) as manager:
        logs = [manager.open(tmp_path / name, **SMALL) for name in "ab"]
        for log in logs:
            fill(log, 2)
        wait_until(lambda: [residencies(log) for log in logs] == [["warm"] * 2] * 2, "all to leave")


def strict_and_full(path: Path) -> aof2.Aof:
    """A log that cannot go on: what could leave is pinned."""
    tiers = aof2.Tiers(hot_bytes=160 << 10, admission="strict")
    log = aof2.Aof.open(path, tiers=tiers, **SMALL)
    fill(log, 1)
    log.pin(0)
    appended = 0
    while True:
        try:
            log.try_append(bytes(4_000))
        except aof2.WouldBlock as refused:
            # Another segment may just not be ready yet.
            if refused.kind == "admission" and len(log.segments()) > 1:
                return log
        else:
            appended += 1
            assert appended < 100, "the budget lets more in than it holds"


def test_strict_admission_refuses_until_there_is_room(tmp_path: Path) -> None:
    with strict_and_full(tmp_path / "events") as log:
        with pytest.raises(aof2.WouldBlock) as refused:
            log.try_append(bytes(4_000))
        assert refused.value.kind == "admission"
        before = log.watermarks().appended
        with pytest.raises(aof2.Timeout):
            log.append(bytes(4_000), timeout=0.1)
        assert log.watermarks().appended == before
        assert log.metrics()["blocked_admission"] > 0
        waiting = threading.Thread(target=log.append, args=(b"waited" * 700,))
        waiting.start()
        assert log.unpin(0)
        waiting.join()
        log.flush()
        assert bytes(log.read_offset(before)) == b"waited" * 700
        assert "warm" in residencies(log)


def test_a_strict_budget_is_never_exceeded(tmp_path: Path) -> None:
    tiers = aof2.Tiers(hot_bytes=320 << 10, admission="strict")
    with aof2.Aof.open(tmp_path / "events", tiers=tiers, **SMALL) as log:
        for number in range(6_000):
            log.append(payload(number))
            if number % 8 == 0:
                assert log.tiers().hot_bytes <= tiers.hot_bytes
        assert log.tiers().evicted_segments > 5


# ---- reading -----------------------------------------------------------------


def check_everything(log: aof2.ReadableLog, ids: list[aof2.RecordId]) -> None:
    count = log.watermarks().durable
    wanted = [payload(n) for n in range(count)]
    assert [bytes(r) for r in log.scan()] == wanted
    assert [bytes(r) for r in log.follow("earliest", timeout=0)] == wanted
    table = pa.table(log.scan_arrow())
    assert table["payload"].to_pylist() == wanted
    assert table["offset"].to_pylist() == list(range(count))
    for number in range(count):
        record = log.read_offset(number)
        assert (record.offset, record.timestamp_ms) == (number, FIRST_MS + number)
        assert record.payload == wanted[number]
        assert log.offset_at(FIRST_MS + number) == number
    for number, rid in enumerate(ids):
        record = log.read(rid)
        assert (record.offset, record.id, bytes(record)) == (number, rid, wanted[number])
    for start in range(0, count, 17):
        for end in (start, start + 1, start + 90, count):
            got = [r.offset for r in log.scan(start, end)]
            assert got == list(range(start, min(end, count)))


def test_every_record_is_read_in_every_way_from_hot_and_warm(mixed: aof2.Aof) -> None:
    ids = [record.id for record in mixed.scan()]
    check_everything(mixed, ids)
    with aof2.open(mixed.path) as reader:
        check_everything(reader, ids)
        assert residencies(reader) == residencies(mixed)


def test_small_frames_change_nothing_but_their_size(tmp_path: Path) -> None:
    tiers = aof2.Tiers(frame_bytes=4 << 10, compression_level=19)
    with aof2.Aof.open(tmp_path / "events", tiers=tiers, segment_bytes=1 << 20) as log:
        ids = []
        for number in range(2_000):
            ids.append(log.append(payload(number), timestamp_ms=FIRST_MS + number))
        log.seal()
        log.evict(0)
        wanted = [payload(n) for n in range(2_000)]
        assert [bytes(r) for r in log.scan()] == wanted
        for number in range(0, 2_000, 7):
            assert bytes(log.read_offset(number)) == wanted[number]
            assert bytes(log.read(ids[number])) == wanted[number]
            assert log.offset_at(FIRST_MS + number) == number


def test_a_compact_log_is_read_the_same(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", format="compact", tiers=aof2.Tiers(), **SMALL) as log:
        ids = fill(log, 3)
        log.evict(1)
        check_everything(log, ids)


def test_a_follower_goes_on_through_segments_that_leave(log: aof2.Aof) -> None:
    follow = log.follow("earliest", timeout=60)
    seen = []
    for segment_id in range(4):
        fill(log, 1)
        log.evict(segment_id)
        seen += [bytes(next(follow)) for _ in range(PER_SEGMENT)]
    assert seen == [payload(n) for n in range(4 * PER_SEGMENT)]


READER = """
    import sys
    import aof2, pyarrow
    from test_tiers import payload

    path, rounds = sys.argv[1], int(sys.argv[2])
    reader = aof2.open(path)
    count = reader.watermarks().durable
    wanted = [payload(n) for n in range(count)]
    print("reading", flush=True)
    for number in range(rounds):
        assert [bytes(r) for r in reader.scan()] == wanted
        assert pyarrow.table(reader.scan_arrow())["payload"].to_pylist() == wanted
        for offset in range(number % 7, count, 7):
            assert bytes(reader.read_offset(offset)) == wanted[offset]
        with aof2.open(path) as fresh:
            assert fresh.read_offset(count - 1).payload == wanted[-1]
    print("done", flush=True)
"""


def test_a_reader_in_another_process_does_not_notice(log: aof2.Aof) -> None:
    fill(log)
    moves = 0
    with start_program(READER, log.path, 60) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        try:
            assert program.stdout.readline() == "reading\n", program.stderr.read()
            while program.poll() is None:
                segment_id = moves % SEGMENTS
                assert log.evict(segment_id) > 0
                assert log.hydrate(segment_id) > 0
                moves += 1
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert (out, err) == ("done\n", "")
    assert moves > 0


def test_buffers_outlive_eviction_and_retention(log: aof2.Aof) -> None:
    fill(log, 3)
    hot = log.read_offset(0).payload
    table = pa.table(log.scan_arrow(0, PER_SEGMENT))
    log.evict(0)
    warm = log.read_offset(1).payload
    warm_table = pa.table(log.scan_arrow(0, PER_SEGMENT))
    log.hydrate(0)
    log.evict(0)
    path = Path(log.path)
    log.close()
    shutil.rmtree(path)
    assert hot == payload(0)
    assert warm == payload(1)
    for read in (table, warm_table):
        assert read["payload"].to_pylist() == [payload(n) for n in range(PER_SEGMENT)]


# ---- moving ------------------------------------------------------------------


def test_evict_and_hydrate_say_what_moved(log: aof2.Aof) -> None:
    fill(log, 2)
    first, second = log.segments()[:2]
    assert (first.residency, first.warm_bytes) == ("hot", None)
    assert log.evict(0) == first.used_bytes
    assert log.evict(0) == 0
    assert not Path(first.path).exists()
    (file,) = warm_files(log)
    moved = log.segments()[0]
    assert (moved.residency, moved.warm_bytes) == ("warm", file.stat().st_size)
    assert (moved.used_bytes, moved.record_count) == (first.used_bytes, first.record_count)
    assert log.hydrate(1) == 0
    assert log.hydrate(0, timeout=60) == first.used_bytes
    back = log.segments()[0]
    assert (back.residency, back.path) == ("hot", first.path)
    # The compressed copy stays: leaving again costs no compression.
    assert back.warm_bytes == moved.warm_bytes
    assert log.evict(0) == first.used_bytes
    metrics = log.tiers().metrics
    assert (metrics.evictions, metrics.hydrations, metrics.compressions) == (2, 1, 1)
    assert metrics.compressed_raw_bytes == first.used_bytes
    assert metrics.compressed_bytes == moved.warm_bytes
    assert metrics.compression_seconds > 0
    assert metrics.hydration_seconds > 0
    assert second.residency == "hot"


def test_a_hydrated_segment_is_the_file_that_it_was(log: aof2.Aof) -> None:
    fill(log, 1)
    file = Path(log.segments()[0].path)
    before = file.read_bytes()
    log.evict(0)
    log.hydrate(0)
    assert file.read_bytes() == before


def test_other_tools_decompress_a_warm_file_to_the_segment(tmp_path: Path) -> None:
    tiers = aof2.Tiers(frame_bytes=4 << 10)
    with aof2.Aof.open(tmp_path / "events", tiers=tiers, **SMALL) as log:
        fill(log, 1)
        segment = log.segments()[0]
        whole = Path(segment.path).read_bytes()
        log.evict(0)
        (file,) = warm_files(log)
    with pa.input_stream(str(file), compression="zstd") as stream:
        assert stream.read() == whole[: segment.used_bytes] + whole[-64:]


def test_prefetch_brings_a_segment_back_soon(log: aof2.Aof) -> None:
    fill(log, 2)
    log.evict(0)
    log.prefetch(0)
    wait_until(lambda: log.tiers().activations_pending == 0, "the segment to come back")
    assert residencies(log) == ["hot", "hot"]
    assert log.tiers().metrics.hydrations == 1


def test_a_pinned_segment_stays_and_others_leave_for_it(tmp_path: Path) -> None:
    # The segment being written, and one behind it.
    tiers = aof2.Tiers(hot_bytes=144 << 10)
    with aof2.Aof.open(tmp_path / "events", tiers=tiers, **SMALL) as log:
        write_until_sealed(log, 3)
        wait_until(lambda: residencies(log) == ["warm", "warm", "hot"], "two to leave")
        log.pin(0)
        assert log.tiers().pinned_segments == 1
        wait_until(lambda: residencies(log) == ["hot", "warm", "warm"], "the third to leave")
        write_until_sealed(log, 5)
        wait_until(lambda: residencies(log)[1:] == ["warm"] * 4, "the others to leave")
        assert residencies(log)[0] == "hot"
        assert log.unpin(0)
        assert not log.unpin(0)
        assert log.tiers().pinned_segments == 0
        write_until_sealed(log, 6)
        wait_until(lambda: residencies(log)[0] == "warm", "it to leave")


def test_a_pin_lasts_until_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with aof2.Aof.open(path, tiers=aof2.Tiers(), **SMALL) as log:
        fill(log, 2)
        log.pin(0)
    with aof2.Aof.open(path, tiers=aof2.Tiers(hot_bytes=1), **SMALL) as log:
        assert log.tiers().pinned_segments == 1
        wait_until(lambda: residencies(log) == ["hot", "warm"], "the other to leave")
        assert log.unpin(0)
        wait_until(lambda: residencies(log) == ["warm", "warm"], "it to leave")
    with aof2.Aof.open(path, tiers=aof2.Tiers(hot_bytes=1), **SMALL) as log:
        assert log.tiers().pinned_segments == 0


def test_what_is_where_survives_reopening_with_and_without_tiers(mixed: aof2.Aof) -> None:
    path = mixed.path
    where = residencies(mixed)
    ids = [record.id for record in mixed.scan()]
    mixed.close()
    with aof2.Aof.open(path, **SMALL) as log:  # reads warm segments, moves none
        assert residencies(log)[: len(where)] == where
        check_everything(log, ids)
        number = log.watermarks().appended
        ids.append(log.append(payload(number), timestamp_ms=FIRST_MS + number))
    with aof2.Aof.open(path, tiers=aof2.Tiers(), **SMALL) as log:
        assert residencies(log)[: len(where)] == where
        check_everything(log, ids)
        assert log.manifest_mode == "enabled"
        assert log.compare_manifest() == []
        # Others may have come back by now: they were read again, and there is room.
        log.hydrate(0)
        assert residencies(log)[0] == "hot"
        check_everything(log, ids)


def test_retention_deletes_compressed_copies(mixed: aof2.Aof) -> None:
    assert [int(f.name[:20]) for f in warm_files(mixed)] == [0, 2, 4]
    report = mixed.apply_retention(before_offset=3 * PER_SEGMENT)
    assert [s.segment_id for s in report.segments] == [0, 1, 2]
    assert [s.residency for s in report.segments] == ["warm", "hot", "warm"]
    assert [int(f.name[:20]) for f in warm_files(mixed)] == [4]
    with pytest.raises(aof2.Trimmed) as trimmed:
        mixed.read_offset(0)
    assert trimmed.value.earliest == 3 * PER_SEGMENT
    assert next(mixed.scan()).offset == 3 * PER_SEGMENT
    with pytest.raises(aof2.SegmentNotFound):
        mixed.hydrate(0)


def test_compressed_segments_are_not_archived(mixed: aof2.Aof) -> None:
    with pytest.raises(aof2.InvalidConfig, match="compressed") as refused:
        mixed.apply_retention(before_offset=3 * PER_SEGMENT, action="archive")
    assert refused.value.field == "action"
    assert mixed.earliest_offset() == 0


def test_metrics_include_the_tiers(mixed: aof2.Aof, tmp_path: Path) -> None:
    tiers = mixed.metrics()["tiers"]
    status = mixed.tiers()
    assert tiers["evicted_segments"] == status.evicted_segments == 3
    assert tiers["evictions"] == status.metrics.evictions == 3
    assert tiers["stream_hot_bytes_max"] is None
    text = mixed.metrics_text()
    assert 'aof2_tier_evicted_segments{stream="events"} 3\n' in text
    assert f'aof2_tier_warm_bytes{{stream="events"}} {status.warm_bytes}\n' in text
    assert 'aof2_appended_records_total{stream="events"}' in text
    with aof2.Aof.open(tmp_path / "plain") as plain:
        assert plain.metrics()["tiers"] is None
        assert "aof2_tier_" not in plain.metrics_text()


# ---- what is refused ---------------------------------------------------------


def moves_of(log: aof2.Aof) -> list[Callable[[], object]]:
    return [
        log.tiers,
        lambda: log.evict(0),
        lambda: log.hydrate(0),
        lambda: log.prefetch(0),
        lambda: log.pin(0),
        lambda: log.unpin(0),
    ]


def test_a_log_without_tiers_says_how_to_get_them(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        for call in moves_of(log):
            with pytest.raises(aof2.InvalidConfig, match=r"without tiers.*aof2\.Tiers") as refused:
                call()
            assert refused.value.field == "tiers"


def test_a_closed_log_moves_nothing(log: aof2.Aof) -> None:
    log.close()
    for call in moves_of(log):
        with pytest.raises(aof2.Closed):
            call()


@pytest.mark.parametrize("name", ["evict", "hydrate", "prefetch", "pin"])
def test_segments_that_are_not_there_or_not_sealed(log: aof2.Aof, name: str) -> None:
    fill(log, 1)
    log.append(b"unsealed")
    move = getattr(log, name)
    for segment_id in (1, 7, (1 << 64) - 1):
        with pytest.raises(aof2.SegmentNotFound, match=f"segment {segment_id}$") as missing:
            move(segment_id)
        assert isinstance(missing.value, LookupError)
        assert missing.value.segment_id == segment_id
        again = pickle.loads(pickle.dumps(missing.value))
        assert (str(again), again.segment_id) == (str(missing.value), segment_id)
    assert log.tiers().pinned_segments == 0


@pytest.mark.parametrize("name", ["evict", "hydrate", "prefetch", "pin", "unpin"])
def test_arguments_of_moves_are_named(log: aof2.Aof, name: str) -> None:
    move = getattr(log, name)
    with pytest.raises(TypeError, match="segment_id must be an int, not str"):
        move("0")
    with pytest.raises(TypeError, match="segment_id must be an int, not bool"):
        move(True)
    with pytest.raises(ValueError, match="segment_id must be from 0"):
        move(-1)
    if name in {"hydrate", "pin"}:
        with pytest.raises(TypeError, match="timeout must be a number"):
            move(0, timeout="1")
        with pytest.raises(ValueError, match="timeout must be at least 0"):
            move(0, timeout=-1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hot_bytes", 0),
        ("compression_level", 0),
        ("compression_level", 23),
        ("compression_level", 1 << 31),
        ("frame_bytes", 4095),
        ("frame_bytes", (16 << 20) + 1),
        ("jobs_max", 0),
        ("jobs_max", 65),
        ("activations_max", 0),
    ],
)
def test_values_that_tiers_cannot_have(name: str, value: int) -> None:
    with pytest.raises(aof2.InvalidConfig, match=f"{name}: must be") as refused:
        aof2.Tiers(**{name: value})  # type: ignore[arg-type]
    assert refused.value.field == name


@pytest.mark.parametrize(
    "options", [{"retry_ms": 0}, {"retry_ms": 2, "retry_ms_max": 1}, {"retry_ms_max": 1}]
)
def test_pauses_that_tiers_cannot_have(options: dict[str, Any]) -> None:
    with pytest.raises(aof2.InvalidConfig, match="retry_ms"):
        aof2.Tiers(**options)


def test_types_of_options_are_named(tmp_path: Path) -> None:
    tiers: Any = aof2.Tiers
    for name in (
        "hot_bytes",
        "compression_level",
        "frame_bytes",
        "jobs_max",
        "activations_max",
        "retry_ms",
        "retry_ms_max",
    ):
        with pytest.raises(TypeError, match=f"{name} must be an int, not str"):
            tiers(**{name: "1"})
        with pytest.raises(ValueError, match=f"{name} must be from 0"):
            tiers(**{name: -1})
    with pytest.raises(ValueError, match='admission must be "elastic" or "strict"'):
        tiers(admission="lax")
    with pytest.raises(TypeError):
        tiers(1 << 20)
    manager: Any = aof2.AofManager
    with pytest.raises(TypeError, match="tiers must be a Tiers or None, not int"):
        manager(tiers=1)
    any_open: Any = aof2.Aof.open
    with pytest.raises(TypeError, match="tiers must be a Tiers or None, not dict"):
        any_open(tmp_path / "events", tiers={})


def test_options_that_nobody_would_heed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "events"
    with pytest.raises(aof2.InvalidConfig, match="hot_bytes: needs tiers"):
        aof2.Aof.open(path, hot_bytes=1)
    modes: list[Any] = ["disabled", "shadow"]
    for mode in modes:
        with pytest.raises(aof2.InvalidConfig, match="manifest_mode") as refused:
            aof2.Aof.open(path, tiers=aof2.Tiers(), manifest_mode=mode)
        assert refused.value.field == "manifest_mode"
    with aof2.AofManager() as manager:
        with pytest.raises(aof2.InvalidConfig, match="hot_bytes: needs tiers"):
            manager.open(path, hot_bytes=1)
        with pytest.raises(ValueError, match="tiers belong to the manager"):
            aof2.Aof.open(path, tiers=aof2.Tiers(), manager=manager)
    with (
        aof2.AofManager(tiers=aof2.Tiers()) as manager,
        pytest.raises(aof2.InvalidConfig, match="hot_bytes: must be at least 1"),
    ):
        manager.open(path, hot_bytes=0)
    assert not path.exists()
    aof2.Aof.open(path, tiers=aof2.Tiers(), manifest_mode="enabled").close()


# ---- values ------------------------------------------------------------------


def test_tiers_are_a_value() -> None:
    plain = aof2.Tiers()
    assert plain.admission == "elastic"
    assert (plain.hot_bytes, plain.frame_bytes) == (1 << 30, 256 << 10)
    assert (plain.compression_level, plain.jobs_max, plain.activations_max) == (3, 1, 1024)
    assert (plain.retry_ms, plain.retry_ms_max) == (500, 60_000)
    options: dict[str, Any] = {
        "hot_bytes": 7,
        "admission": "strict",
        "compression_level": 9,
        "frame_bytes": 8192,
        "jobs_max": 2,
        "activations_max": 5,
        "retry_ms": 70_000,
        "retry_ms_max": 80_000,
    }
    tiers = aof2.Tiers(**options)
    for name, value in options.items():
        assert getattr(tiers, name) == value
        assert aof2.Tiers(**{name: value}) != plain
        with pytest.raises(AttributeError):
            setattr(tiers, name, value)
    assert eval(repr(tiers), {"Tiers": aof2.Tiers}) == tiers
    for again in (pickle.loads(pickle.dumps(tiers)), copy.copy(tiers), copy.deepcopy(tiers)):
        assert again == tiers
        assert hash(again) == hash(tiers)
    assert tiers != plain
    assert tiers != 7
    # A longer first pause alone is no contradiction.
    assert aof2.Tiers(retry_ms=90_000).retry_ms_max == 90_000


def test_a_status_is_a_value(mixed: aof2.Aof) -> None:
    status = mixed.tiers()
    assert pickle.loads(pickle.dumps(status)) == status
    segments = mixed.segments()
    assert pickle.loads(pickle.dumps(segments)) == segments


def test_last_copy_pickles() -> None:
    error = aof2.LastCopy("segment 3 stays: this is its last copy", segment_id=3)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.segment_id) == (aof2.LastCopy, str(error), 3)


# ---- processes and waiting ---------------------------------------------------


def test_after_a_fork_the_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    told = run_program(
        """
        import os, sys
        import aof2
        from test_tiers import fill, moves_of, residencies

        log = aof2.Aof.open(sys.argv[1], tiers=aof2.Tiers(), segment_bytes=65536)
        fill(log, 3)
        log.evict(0)
        pid = os.fork()
        if pid == 0:
            code = 0
            for call in moves_of(log):
                try:
                    call()
                    code = 1
                except aof2.ForkedHandle:
                    pass
            with aof2.open(sys.argv[1]) as own:
                code |= residencies(own) != ["warm", "hot", "hot"]
            log.close()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        log.evict(1)
        log.hydrate(0)
        print(*residencies(log))
        log.close()
        """,
        tmp_path / "events",
    )
    assert told == ["0", "hot warm hot"]


STALLED = """
    import sys
    import aof2
    from support import stall_background
    from test_tiers import fill

    log = aof2.Aof.open(sys.argv[1], tiers=aof2.Tiers(activations_max=1), segment_bytes=65536)
    fill(log, 2)
    log.evict(0)
    log.evict(1)
    stall_background()
"""


def test_waits_end_in_time_and_no_more_than_allowed_wait(tmp_path: Path) -> None:
    told = run_program(
        STALLED
        + """
    for wait in (log.hydrate, log.pin):
        try:
            wait(0, timeout=0.05)
        except aof2.Timeout as error:
            print(error)
    print(log.tiers().pinned_segments, log.tiers().activations_pending)
    for ask in (log.prefetch, log.hydrate, log.pin):
        try:
            ask(1)
        except aof2.WouldBlock as error:
            print(error.kind)
    log.prefetch(0)
    print(log.tiers().pinned_segments, log.tiers().activations_pending)
    sys.stdout.flush()
    import os
    os._exit(0)
        """,
        tmp_path / "events",
    )
    timed_out = "timed out waiting for the segment to come back"
    assert told == [timed_out, timed_out, "0 1", *["hydration"] * 3, "0 1"]


@pytest.mark.parametrize("name", ["hydrate", "pin"])
def test_control_c_ends_a_wait_for_a_segment(tmp_path: Path, name: str) -> None:
    source = (
        STALLED
        + f"""
    import os
    print("waiting", flush=True)
    try:
        log.{name}(0)
    except KeyboardInterrupt:
        status = log.tiers()
        print(status.activations_pending, status.pinned_segments, flush=True)
    os._exit(0)
    """
    )
    with start_program(source, tmp_path / "events") as program:
        try:
            assert interrupt(program) == ["1 0"]
        finally:
            program.kill()


def test_control_c_ends_the_wait_for_a_compression(tmp_path: Path) -> None:
    """It goes on, and closing waits for it."""
    source = """
    import random, sys
    import aof2

    tiers = aof2.Tiers(compression_level=19, frame_bytes=16 << 20)
    log = aof2.Aof.open(sys.argv[1], tiers=tiers, segment_bytes=32 << 20)
    words = [random.Random(n).randbytes(7) for n in range(5000)]
    chosen = random.Random(0).choices(words, k=4_000_000)
    text = b"".join(chosen)
    log.append(text)
    log.seal()
    print("waiting", flush=True)
    try:
        log.evict(0)
    except KeyboardInterrupt:
        log.close()
        with aof2.Aof.open(sys.argv[1]) as log:
            print(log.segments()[0].residency, bytes(log.read_offset(0)) == text, flush=True)
    """
    with start_program(source, tmp_path / "events") as program:
        try:
            (told,) = interrupt(program)
        finally:
            program.kill()
    residency, is_whole = told.split()
    # The log may have been closed between compressing and removing the file.
    assert residency in {"hot", "warm"}
    assert is_whole == "True"
