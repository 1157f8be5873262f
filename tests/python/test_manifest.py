"""A log records what happens to its segments, and anybody may read it."""

from __future__ import annotations

import datetime
import pickle
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aof2
import pytest
from support import SMALL, wait_until

if TYPE_CHECKING:
    from aof2._manifest_types import ManifestMode

MODES: list[ManifestMode] = ["disabled", "shadow", "enabled", "enabled"]
ENABLED: dict[str, Any] = {**SMALL, "manifest_mode": "enabled"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events"


def write_segments(log: aof2.Aof, count: int) -> None:
    for _ in range(count):
        log.append(b"x" * 100)
        log.seal()


def chunk_files(path: Path) -> list[Path]:
    return sorted((path / "manifest").glob("*/*.mlog"))


def test_a_log_has_no_manifest_unless_asked(path: Path) -> None:
    with aof2.Aof.open(path) as log:
        assert log.manifest_mode == "disabled"
        with pytest.raises(aof2.InvalidConfig, match="disabled") as caught:
            log.commit_manifest()
        assert caught.value.field == "manifest_mode"
    assert not (path / "manifest").exists()
    with pytest.raises(aof2.NotALog, match="no manifest"):
        aof2.Manifest.open(path)
    with pytest.raises(aof2.NotALog):
        aof2.Manifest.open(path / "nothing")


def test_wrong_modes_are_refused_by_name(path: Path) -> None:
    with pytest.raises(ValueError, match="manifest_mode"):
        aof2.Aof.open(path, manifest_mode="on")  # type: ignore[arg-type]
    with aof2.Aof.open(path) as log, pytest.raises(ValueError, match="mode"):
        log.set_manifest_mode("on")  # type: ignore[arg-type]


def test_what_happens_to_segments_is_recorded_in_order(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED, ext_id=5) as log:
        write_segments(log, 3)
        log.apply_retention(before_offset=1)
        log.commit_manifest()
        manifest = aof2.Manifest.open(path)
        of_first = [record.type for record in manifest.records(segment_id=0)]
        assert of_first == ["SegmentOpened", "SealSegment", "LocalEvicted"]
        assert [r.segment_id for r in manifest.records(types=["SealSegment"])] == [0, 1, 2]
        sealed = next(iter(manifest.records(types=["SealSegment"], segment_id=1)))
        assert sealed.details["ext_id"] == 5
        assert sealed.details["flush_failure"] is False
        infos = {info.segment_id: info for info in log.segments()}
        assert sealed.details["durable_bytes"] == infos[1].used_bytes
        ordinals = [record.ordinal for record in manifest.records()]
        assert ordinals == list(range(len(ordinals)))


def test_the_index_is_what_the_segments_are(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED, ext_id=5) as log:
        write_segments(log, 3)
        log.apply_retention(before_offset=1)
        assert log.compare_manifest() == []
    # Closed: nothing more is recorded behind our back.
    manifest = aof2.Manifest.open(path)
    index = manifest.index()
    assert manifest.segments() == index.segments
    assert (index.pending_uploads, index.pending_deletes) == ([], [])
    infos = {info.segment_id: info for info in aof2.open(path).segments()}
    assert sorted(infos) == [s.segment_id for s in index.segments if s.hot] == [1, 2]
    for known in index.segments:
        assert known.is_sealed
        assert known.durable_bytes == infos[known.segment_id].used_bytes
        assert known.ext_id == 5


def test_modes_switch_while_the_log_is_open(path: Path) -> None:
    with aof2.Aof.open(path, **SMALL) as log:
        write_segments(log, 2)
        log.set_manifest_mode("shadow")
        assert log.manifest_mode == "shadow"
        assert log.compare_manifest() == []
        log.set_manifest_mode("disabled")
        write_segments(log, 2)
        log.set_manifest_mode("enabled")
        assert log.compare_manifest() == []
        assert len([s for s in log.manifest_index().segments if s.is_sealed]) == 4


def test_divergence_is_found_and_counted(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 3)
        Path(log.segments()[1].path).unlink()
        (found,) = log.compare_manifest()
        assert (found.segment_id, found.kind) == (1, "not_on_disk")
        assert log.metrics()["manifest"]["shadow_divergence"] == 1
        assert "aof2_manifest_shadow_divergence" in log.metrics_text()
    report = aof2.Manifest.open(path).verify()
    assert not report.is_healthy
    assert [p.kind for p in report.problems if p.severity == "damage"] == ["not_on_disk"]


def test_a_manifest_that_is_only_behind_is_no_damage(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 1)
    with aof2.Aof.open(path, **SMALL) as log:
        write_segments(log, 2)
        log.apply_retention(before_offset=1)
    report = aof2.Manifest.open(path).verify()
    assert report.is_healthy, report.problems
    assert report.problems
    assert {problem.severity for problem in report.problems} == {"notice"}


def test_every_flipped_byte_is_reported_with_its_place(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 2)
        log.record_event(7, b"mine")
    (file,) = chunk_files(path)
    report = aof2.Manifest.open(path).verify()
    assert report.is_healthy
    assert report.to_dict()["record_count"] == report.record_count
    committed = report.chunks[0].committed_bytes
    intact = file.read_bytes()
    rng = random.Random(7)
    for at in sorted({64, committed - 1, *rng.sample(range(64, committed), 40)}):
        damaged = bytearray(intact)
        damaged[at] ^= 1 << rng.randrange(8)
        file.write_bytes(damaged)
        found = aof2.Manifest.open(path).verify()
        assert not found.is_healthy, at
        assert {p.path for p in found.problems if p.severity == "damage"} == {str(file)}
        with pytest.raises(aof2.Corrupt) as caught:
            list(aof2.Manifest.open(path).records())
        assert caught.value.path == str(file)
    file.write_bytes(intact)
    assert aof2.Manifest.open(path).verify().is_healthy


def test_a_damaged_manifest_stops_an_enabled_log_and_not_a_shadowed_one(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 1)
    (file,) = chunk_files(path)
    damaged = bytearray(file.read_bytes())
    damaged[70] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(aof2.Corrupt) as caught:
        aof2.Aof.open(path, **ENABLED)
    assert caught.value.path == str(file)
    with aof2.Aof.open(path, manifest_mode="shadow") as log:
        assert log.metrics()["manifest_failures"] == 1
        log.append(b"goes on")
        log.flush()


def test_events_of_the_user_come_back(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        first = log.record_event(42, b"\x00\xffblob")
        second = log.record_event(43, bytearray(b"about 9"), segment_id=9)
        assert second > first
        log.commit_manifest()
        with pytest.raises(TypeError, match="blob"):
            log.record_event(1, "text")  # type: ignore[arg-type]
        with pytest.raises(aof2.InvalidRecord):
            log.record_event(1, bytes(1 << 20))
        # No segment has such a number, and no signed column of a DataFrame has room for it.
        with pytest.raises(aof2.InvalidRecord, match="cannot exist"):
            log.record_event(1, b"nowhere", segment_id=1 << 63)
    events = list(aof2.Manifest.open(path).records(types=["CustomEvent"]))
    assert [(e.details["schema_id"], e.details["blob"]) for e in events] == [
        (42, b"\x00\xffblob"),
        (43, b"about 9"),
    ]
    assert events[1].segment_id == 9


def test_snapshots_are_taken_and_used(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 2)
        snapshot_id = log.snapshot_manifest()
        write_segments(log, 1)
    report = aof2.Manifest.open(path).verify()
    assert [snapshot.snapshot_id for snapshot in report.snapshots] == [snapshot_id]
    before = aof2.Manifest.open(path).index()
    Path(report.snapshots[0].path).write_bytes(b"damaged")
    assert aof2.Manifest.open(path).index() == before
    assert not aof2.Manifest.open(path).verify().is_healthy


def test_a_reader_sees_a_live_manifest_grow(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 1)
        batches = aof2.Manifest.open(path).batches()
        seen: list[tuple[str, int]] = []

        def seals() -> int:
            seen.extend((record.type, record.segment_id) for batch in batches for record in batch)
            return sum(type_ == "SealSegment" for type_, _ in seen)

        # Nobody asks for a commit: the background does it.
        wait_until(lambda: seals() == 1, "the seal")
        write_segments(log, 2)
        wait_until(lambda: seals() == 3, "the seals")
    assert [segment for type_, segment in seen if type_ == "SealSegment"] == [0, 1, 2]
    assert len(set(seen)) == len(seen), "nothing is given twice"


def test_records_are_filtered_by_time_and_arguments_are_checked(path: Path) -> None:
    before = datetime.datetime.now(datetime.UTC)
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 1)
    manifest = aof2.Manifest.open(path)
    everything = list(manifest.records())
    second = datetime.timedelta(seconds=1)
    assert list(manifest.records(since=before - second)) == everything
    assert list(manifest.records(until=before - second)) == []
    assert everything[0].timestamp >= before - second
    with pytest.raises(ValueError, match="since"):
        manifest.records(since=datetime.datetime(2026, 1, 1))
    with pytest.raises(TypeError, match="until"):
        manifest.records(until=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Sealed"):
        manifest.records(types=["Sealed"])
    with pytest.raises(TypeError, match="types"):
        manifest.records(types="SealSegment")


def test_records_as_arrow(path: Path) -> None:
    pytest.importorskip("pyarrow")
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 2)
        log.record_event(1, b"\x01\x02")
    manifest = aof2.Manifest.open(path)
    table = manifest.records_arrow().read_all()
    records = list(manifest.records())
    assert table.column("type").to_pylist() == [record.type for record in records]
    assert table.column("ordinal").to_pylist() == list(range(len(records)))
    assert '"blob": "0102"' in "".join(table.column("details").to_pylist())


def test_manifests_and_what_they_give_pickle(path: Path) -> None:
    with aof2.Aof.open(path, **ENABLED) as log:
        write_segments(log, 1)
    manifest = aof2.Manifest.open(path)
    again = pickle.loads(pickle.dumps(manifest))
    assert list(again.records()) == list(manifest.records())
    for value in (manifest.index(), manifest.verify(), next(iter(manifest.records()))):
        assert pickle.loads(pickle.dumps(value)) == value
    assert str(path) in repr(manifest)


def test_the_manifest_of_a_closed_log_is_closed(path: Path) -> None:
    log = aof2.Aof.open(path, **ENABLED)
    log.close()
    for call in (log.commit_manifest, log.snapshot_manifest, log.compare_manifest):
        with pytest.raises(aof2.Closed):
            call()
    with pytest.raises(aof2.Closed):
        log.set_manifest_mode("disabled")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_the_manifest_agrees_with_the_files(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        mode = rng.choice(MODES)
        with aof2.Aof.open(path, segment_bytes=64 << 10, manifest_mode=mode) as log:
            for _ in range(rng.randrange(1, 25)):
                step = rng.randrange(8)
                if step < 4:
                    log.append_many([rng.randbytes(rng.randrange(1, 9000)) for _ in range(5)])
                elif step == 4:
                    log.seal()
                elif step == 5:
                    log.apply_retention(before_offset=rng.randrange(log.watermarks().durable + 1))
                elif step == 6:
                    log.set_manifest_mode(rng.choice(MODES))
                elif log.manifest_mode != "disabled":
                    assert log.compare_manifest() == []
            log.set_manifest_mode("enabled")
            assert log.compare_manifest() == []
        assert aof2.Manifest.open(path).verify().problems == []
