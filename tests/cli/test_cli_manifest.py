"""``aof2 manifest``: inspect, verify, snapshot."""

import json
from pathlib import Path

import aof2
import pytest
from cli_support import run, running


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A log with a manifest: two sealed segments, an event."""
    path = tmp_path / "events"
    with aof2.Aof.open(path, segment_bytes=64 << 10, manifest_mode="enabled") as log:
        for _ in range(2):
            log.append(b"x" * 100)
            log.seal()
        log.record_event(7, b"\x01\x02")
    return path


def test_inspect_prints_the_records(recorded: Path) -> None:
    lines = run("manifest", "inspect", recorded).ok().text.splitlines()
    assert lines[0].split("\t") == ["record", "time", "segment", "type", "offset", "details"]
    types = [line.split("\t")[3] for line in lines[1:]]
    assert types.count("SealSegment") == 2
    assert any("blob=0102" in line for line in lines)


def test_inspect_filters(recorded: Path) -> None:
    def types(*options: object) -> list[str]:
        result = run("manifest", "inspect", recorded, "--json", *options).ok()
        return [line["type"] for line in result.lines()]

    assert types("--type", "SealSegment") == ["SealSegment"] * 2
    assert types("--segment", 0) == ["SegmentOpened", "SealSegment"]
    assert types("--until", "2020-01-01") == []
    assert len(types("--since", "2020-01-01")) == len(types())


def test_json_is_exact(recorded: Path) -> None:
    (sealed, _) = run("manifest", "inspect", recorded, "--json", "--type", "SealSegment").lines()
    known = next(iter(aof2.Manifest.open(recorded).records(types=["SealSegment"])))
    assert sealed["details"]["segment_crc64"] == f"{known.details['segment_crc64']:016x}"
    assert sealed["timestamp_ms"] == known.timestamp_ms


def test_a_timeline_has_a_line_for_each_segment(recorded: Path) -> None:
    lines = run("manifest", "inspect", recorded, "--timeline").ok().text.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1"]
    assert all("hot" in line.split("\t")[5] for line in lines[1:])
    objects = run("manifest", "inspect", recorded, "--timeline", "--json").ok().lines()
    assert [known["segment_id"] for known in objects] == [0, 1]
    result = run("manifest", "inspect", recorded, "--timeline", "--follow")
    assert result.code == 1
    assert "--timeline" in result.stderr


def test_unknown_types_are_named(recorded: Path) -> None:
    result = run("manifest", "inspect", recorded, "--type", "Sealed")
    assert result.code == 1
    assert "SealSegment" in result.stderr


def test_verify_says_healthy_or_where_the_damage_is(recorded: Path) -> None:
    assert run("manifest", "verify", recorded).ok().text.startswith("healthy: ")
    (file,) = (recorded / "manifest").glob("*/*.mlog")
    damaged = bytearray(file.read_bytes())
    damaged[70] ^= 1
    file.write_bytes(damaged)
    result = run("manifest", "verify", recorded)
    assert result.code == 5
    assert str(file) in result.text
    report = run("manifest", "verify", recorded, "--json")
    assert report.code == 5
    assert json.loads(report.stdout)["is_healthy"] is False
    assert run("manifest", "inspect", recorded).code == 5


def test_verify_finds_files_that_contradict_the_manifest(recorded: Path) -> None:
    with aof2.Aof.open(recorded, segment_bytes=64 << 10, manifest_mode="enabled") as log:
        log.append(b"another")
        log.seal()
        lost = log.segments()[1].path
    Path(lost).unlink()
    result = run("manifest", "verify", recorded)
    assert result.code == 5
    assert "not_on_disk" in result.text


def test_snapshot_writes_one(recorded: Path) -> None:
    first = run("manifest", "snapshot", recorded, "--json").ok().json()
    again = run("manifest", "snapshot", recorded, "--json").ok().json()
    assert again["snapshot_id"] > first["snapshot_id"]
    assert len(aof2.Manifest.open(recorded).verify().snapshots) == 2
    assert "snapshot" in run("manifest", "snapshot", recorded).ok().text
    with aof2.Aof.open(recorded):
        assert run("manifest", "snapshot", recorded).code == 4


def test_a_log_without_a_manifest_says_how_to_have_one(log: Path) -> None:
    for name in ("inspect", "verify", "snapshot"):
        result = run("manifest", name, log)
        assert result.code == 2
        assert "manifest_mode" in result.stderr
        assert not (log / "manifest").exists()


def test_following_prints_what_comes(recorded: Path) -> None:
    with running("manifest", "inspect", recorded, "--follow", "--json") as process:
        assert "SegmentOpened" in process.line()
        with aof2.Aof.open(recorded, manifest_mode="enabled") as log:
            log.record_event(99, b"news")
            log.commit_manifest()
            while '"schema_id":99' not in process.line():
                pass
        process.interrupt()
        assert process.finish().code == 130
