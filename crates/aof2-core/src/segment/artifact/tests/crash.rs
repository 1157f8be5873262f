//! Hydration cut short at every call, and failing at every call.

use std::path::{Path, PathBuf};

use super::fixture::*;
use crate::format::{SegmentFileName, SegmentFormat};
use crate::io::Storage;
use crate::io::sim::{CrashOptions, Fault, SimStorage};
use crate::segment::artifact::{Artifact, hydrate};

/// A machine with a durable, empty `segments/`.
fn machine() -> SimStorage {
    let sim = SimStorage::new();
    sim.create_dir_all(Path::new(SEGMENTS)).unwrap();
    for dir in ["/log", "/"] {
        sim.sync_dir(Path::new(dir)).unwrap();
    }
    sim
}

/// A segment with frames enough for several writes, and an artifact that no crash
/// touches.
fn artifact() -> (Fixture, Artifact) {
    let fixture = Fixture::mixed(SegmentFormat::Full);
    let artifact = open_bytes(fixture.artifact(&SMALL)).unwrap();
    (fixture, artifact)
}

/// Every name of a segment in the directory is the whole segment. Whether there is one.
fn check_names(sim: &SimStorage, fixture: &Fixture, what: &str) -> bool {
    let mut is_there = false;
    for entry in sim.list(Path::new(SEGMENTS)).unwrap() {
        if SegmentFileName::parse(&entry.name).is_some() {
            let path = Path::new(SEGMENTS).join(&entry.name);
            assert_eq!(path, fixture.path(), "{what}");
            assert!(read_file(sim, &path) == fixture.file, "{what}: the file is not whole");
            is_there = true;
        } else {
            assert!(entry.name.ends_with(".seg.tmp"), "{what}: {}", entry.name);
        }
    }
    is_there
}

#[test]
fn a_cut_anywhere_leaves_no_segment_or_all_of_it() {
    let (fixture, artifact) = artifact();
    let dir = Path::new(SEGMENTS);
    let whole = machine();
    let before = whole.calls();
    hydrate(&whole, &artifact, dir).unwrap();
    let calls = before..whole.calls();
    assert!(calls.end - calls.start >= 9, "{calls:?}");
    for cut in calls.clone() {
        for cut_after in [false, true] {
            let sim = machine();
            match cut_after {
                true => sim.crash_after(cut),
                false => sim.crash_at(cut),
            }
            hydrate(&sim, &artifact, dir).unwrap_err();
            let image = sim.take_crash().unwrap();
            for seed in 0..24 {
                let what = format!("cut {cut} (after: {cut_after}), seed {seed}");
                let after = image.materialize(seed, &CrashOptions::default());
                check_names(&after, &fixture, &what);
                // Whatever was left does not stand in the way.
                hydrate(&after, &artifact, dir).map_err(|e| format!("{what}: {e}")).unwrap();
                let durable = after.image().materialize(0, &CrashOptions::default());
                assert!(check_names(&durable, &fixture, &what), "{what}: not durable");
                assert_eq!(durable.list(dir).unwrap().len(), 1, "{what}: a temporary stays");
            }
        }
    }
}

/// When hydrate has returned, no power cut takes the segment away.
#[test]
fn a_hydrated_segment_is_durable() {
    let (fixture, artifact) = artifact();
    let sim = machine();
    hydrate(&sim, &artifact, Path::new(SEGMENTS)).unwrap();
    for seed in 0..24 {
        let after = sim.image().materialize(seed, &CrashOptions::default());
        assert!(check_names(&after, &fixture, "after the return"), "seed {seed}");
    }
}

#[test]
fn an_error_anywhere_is_told_and_leaves_no_half_segment() {
    let (fixture, artifact) = artifact();
    let dir = Path::new(SEGMENTS);
    let whole = machine();
    let before = whole.calls();
    hydrate(&whole, &artifact, dir).unwrap();
    for call in before..whole.calls() {
        for fault in [Fault::Os(5), Fault::Os(28), Fault::Short] {
            let sim = machine();
            sim.fail_at(call, fault);
            let what = format!("call {call}, {fault:?}");
            let error = hydrate(&sim, &artifact, dir).unwrap_err();
            assert!(error.io_source().is_some(), "{what}: {error}");
            sim.clear_faults();
            for seed in 0..8 {
                let after = sim.image().materialize(seed, &CrashOptions::default());
                check_names(&after, &fixture, &what);
            }
            hydrate(&sim, &artifact, dir).map_err(|e| format!("{what}: {e}")).unwrap();
            assert!(check_names(&sim, &fixture, &what));
        }
    }
}

/// A temporary from another try, longer than the segment and full of something else, is
/// not written over but replaced.
#[test]
fn a_left_over_temporary_is_replaced() {
    let (fixture, artifact) = artifact();
    let sim = machine();
    let temporary = PathBuf::from(format!("{}.tmp", fixture.path().display()));
    let file = sim.create_new(&temporary).unwrap();
    file.write_all_at(&vec![0xAA; fixture.file.len() + 4096], 0).unwrap();
    file.sync().unwrap();
    hydrate(&sim, &artifact, Path::new(SEGMENTS)).unwrap();
    assert!(check_names(&sim, &fixture, "left over"));
    assert!(!sim.exists(&temporary).unwrap());
}

/// The disk is too small for the segment: a typed error, and nothing stays.
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let (_, artifact) = artifact();
    let sim = machine();
    sim.set_capacity_len(Some(sim.used_len() + 4096));
    let error = hydrate(&sim, &artifact, Path::new(SEGMENTS)).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert!(sim.list(Path::new(SEGMENTS)).unwrap().is_empty());
}
