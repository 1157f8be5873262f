"""Damage is found, told with its place, passed over when asked, and repaired."""

from __future__ import annotations

import json
from pathlib import Path

import aof2
import pytest


def damaged_log(path: Path) -> Path:
    """Six records in three sealed segments, one bit of record 2 flipped."""
    with aof2.Aof.open(path) as log:
        for i in range(3):
            log.append_many([b"%d" % (2 * i), b"%d" % (2 * i + 1)])
            log.seal()
        file = Path(log.segments()[1].path)
    data = bytearray(file.read_bytes())
    data[64 + 32] ^= 1
    file.write_bytes(data)
    return file


def test_a_healthy_log_has_nothing_to_tell(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events", name="orders") as log:
        for i in range(3):
            log.append(b"%d" % i, timestamp_ms=100 + i)
            log.seal()
        stream_id = log.stream_id
    seen: list[aof2.VerifyProgress] = []
    report = aof2.verify(tmp_path / "events", progress=seen.append)
    assert report.is_healthy
    assert report.problems == []
    assert report.gaps == []
    assert (report.path, report.name, report.stream_id, report.format) == (
        str(tmp_path / "events"),
        "orders",
        stream_id,
        "full",
    )
    assert (report.record_count, report.first_offset, report.next_offset) == (3, 0, 3)
    assert report.durable_offset == 3
    assert report.bytes == sum(segment.bytes for segment in report.segments)
    assert [s.first_offset for s in report.segments] == [0, 1, 2]
    assert [s.first_timestamp_ms for s in report.segments] == [100, 101, 102]
    assert all(s.is_sealed and s.record_count == 1 for s in report.segments)
    assert json.loads(json.dumps(report.to_dict()))["segments"][2]["segment_id"] == 2
    done = [(p.segments_done, p.segments_total) for p in seen]
    assert done == sorted(done)
    assert done[-1] == (3, 3)
    assert done[0][0] == 0
    assert seen[-1].bytes_done == seen[-1].bytes_total > 0


def test_damage_is_told_with_its_place(tmp_path: Path) -> None:
    file = damaged_log(tmp_path / "events")
    report = aof2.verify(tmp_path / "events")
    assert not report.is_healthy
    problem = next(p for p in report.problems if p.kind == "record")
    assert (problem.severity, problem.path, problem.records) == ("damage", str(file), (2, 3))
    assert problem.offset == 64
    assert str(file) in str(problem)
    with aof2.open(tmp_path / "events") as reader:
        scan = reader.scan()
        assert [bytes(next(scan)) for _ in range(2)] == [b"0", b"1"]
        with pytest.raises(aof2.Corrupt) as corrupt:
            next(scan)
        assert (corrupt.value.path, corrupt.value.offset) == (str(file), 64)
        assert corrupt.value.records == (2, 3)
        assert corrupt.value.filename == str(file)
        assert next(scan, None) is None
        with pytest.raises(aof2.Corrupt):
            reader.read_offset(2)
        assert bytes(reader.read_offset(3)) == b"3"


@pytest.mark.parametrize("kind", ["scan", "follow"])
def test_damage_is_passed_over_when_asked(tmp_path: Path, kind: str) -> None:
    damaged_log(tmp_path / "events")
    with aof2.open(tmp_path / "events") as reader:
        records: aof2.Scan | aof2.Follow
        if kind == "scan":
            records = reader.scan(on_corruption="skip")
        else:
            records = reader.follow("earliest", 6, on_corruption="skip")
        found = [(next(records).offset, records.skipped) for _ in range(5)]
        assert found == [(0, 0), (1, 0), (3, 1), (4, 1), (5, 1)]
        assert records.next_offset == 6
        assert next(records, None) is None
        assert records.lost == 0
        assert records.skipped_ranges == [aof2.SkippedRange((2, 3), "damaged")]


@pytest.mark.parametrize("kind", ["scan", "follow"])
def test_what_a_repair_gave_up_is_told_by_readers(tmp_path: Path, kind: str) -> None:
    """Gaps were passed over without a word: the log seemed whole."""
    damaged_log(tmp_path / "events")
    aof2.repair(tmp_path / "events")
    gap = [aof2.SkippedRange((2, 3), "lost")]
    with aof2.open(tmp_path / "events") as reader:
        records = reader.scan() if kind == "scan" else reader.follow("earliest", 6)
        found = [(next(records).offset, records.skipped, records.lost) for _ in range(5)]
        assert found == [(0, 0, 0), (1, 0, 0), (3, 1, 1), (4, 1, 1), (5, 1, 1)]
        assert records.skipped_ranges == gap
        # Only what was asked for.
        for start, end, skipped in [(0, 2, 0), (0, 3, 1), (2, 3, 1), (2, 6, 1), (3, 6, 0)]:
            part = reader.scan(start, end)
            assert [r.offset for r in part] == [o for o in range(start, end) if o != 2]
            assert (part.skipped, part.skipped_ranges) == (skipped, gap * skipped)


@pytest.mark.parametrize("columns", [["offset", "payload"], ["offset"]])
@pytest.mark.parametrize("verify_checksums", [True, False])
def test_arrow_tells_it_too(tmp_path: Path, columns: list[str], verify_checksums: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    damaged_log(tmp_path / "events")
    aof2.repair(tmp_path / "events")
    with aof2.open(tmp_path / "events") as reader:
        scan = reader.scan_arrow(columns=columns, verify_checksums=verify_checksums)
        assert pyarrow.table(scan)["offset"].to_pylist() == [0, 1, 3, 4, 5]
        assert (scan.skipped, scan.lost, scan.next_offset) == (1, 1, 6)
        assert scan.skipped_ranges == [aof2.SkippedRange((2, 3), "lost")]


def test_checksums_are_not_looked_at_when_told_so(tmp_path: Path) -> None:
    damaged_log(tmp_path / "events")
    with aof2.open(tmp_path / "events") as reader:
        found = [bytes(record) for record in reader.scan(verify_checksums=False)]
    assert found == [b"0", b"1", b"3", b"3", b"4", b"5"]


def test_repair_says_what_is_gone(tmp_path: Path) -> None:
    file = damaged_log(tmp_path / "events")
    report = aof2.repair(tmp_path / "events")
    (lost,) = report.lost
    assert (lost.records, lost.segment_id, lost.path) == ((2, 3), 1, str(file))
    assert lost.is_exact
    assert lost.bytes[0] == 64
    assert any(str(file) in action for action in report.actions)
    assert [Path(q).parent.name for q in report.quarantined] == ["quarantine"]
    assert all(Path(q).exists() for q in report.quarantined)
    assert report.verify.is_healthy
    assert report.verify.gaps == [(2, 3)]
    assert report.verify.record_count == 5
    json.dumps(report.to_dict())
    with aof2.Aof.open(tmp_path / "events") as log:
        assert [record.offset for record in log.scan()] == [0, 1, 3, 4, 5]
        with pytest.raises(aof2.Corrupt) as gone:
            log.read_offset(2)
        assert gone.value.records == (2, 3)


def test_a_healthy_log_is_left_as_it_is(tmp_path: Path) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        log.append(b"x")
    before = {f: f.read_bytes() for f in (tmp_path / "events").rglob("*") if f.is_file()}
    report = aof2.repair(tmp_path / "events")
    after = {f: f.read_bytes() for f in (tmp_path / "events").rglob("*") if f.is_file()}
    assert (report.lost, report.actions, report.quarantined) == ([], [], [])
    assert {f: d for f, d in after.items() if f in before and f.name != "lock"} == {
        f: d for f, d in before.items() if f.name != "lock"
    }


@pytest.mark.parametrize("harm", ["truncated", "missing"])
def test_a_damaged_segment_says_so_in_the_listing(tmp_path: Path, harm: str) -> None:
    with aof2.Aof.open(tmp_path / "events") as log:
        for i in range(3):
            log.append(b"%d" % i)
            log.seal()
        file = Path(log.segments()[1].path)
    if harm == "truncated":
        file.write_bytes(file.read_bytes()[:1000])
    else:
        file.unlink()
    with aof2.open(tmp_path / "events") as reader:
        first, second, third = reader.segments()
        assert (first.damage, third.damage) == (None, None)
        assert second.damage is not None
        assert {"truncated": "1000 bytes", "missing": "missing"}[harm] in second.damage
        with pytest.raises(aof2.Corrupt) as corrupt:
            reader.read_offset(1)
        assert corrupt.value.records == (1, 2)
        assert [bytes(record) for record in reader.scan(on_corruption="skip")] == [b"0", b"2"]


def test_verifying_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(aof2.NotALog):
        aof2.verify(tmp_path / "missing")
    with pytest.raises(aof2.NotALog):
        aof2.repair(tmp_path / "missing")
