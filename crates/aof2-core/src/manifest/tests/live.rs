//! Reading while it is written, and between two positions.

use super::driver::{OPENING_CALLS, config, open_with, reader, record_one};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::format::manifest::ManifestEvent;
use crate::io::sim::{CrashOptions, SimStorage};
use crate::manifest::{ManifestCursor, ManifestPosition};

fn drain(cursor: &mut ManifestCursor) -> Vec<u64> {
    let mut ordinals = Vec::new();
    while let Some(placed) = cursor.next_record().unwrap() {
        ordinals.push(placed.ordinal);
    }
    ordinals
}

#[test]
fn a_cursor_sees_the_log_grow_across_chunks_and_writers() {
    let sim = SimStorage::new();
    let mut cursor = reader(&sim).cursor_at(ManifestPosition::start_of(0), None);
    assert_eq!(drain(&mut cursor), [0; 0], "there is no manifest yet");
    let mut expected = 0;
    for round in 0..30 {
        let manifest = open_with(&sim, config(0)).unwrap();
        assert_eq!(drain(&mut cursor), [0; 0], "nothing new");
        for _ in 0..round % 4 + 1 {
            record_one(&manifest).unwrap();
            record_one(&manifest).unwrap();
            assert_eq!(drain(&mut cursor), [0; 0], "recorded is not committed");
            manifest.commit().unwrap();
            if round % 3 == 0 {
                manifest.rotate().unwrap();
            }
            assert_eq!(drain(&mut cursor), [expected, expected + 1]);
            expected += 2;
        }
        if round % 2 == 0 {
            manifest.close().unwrap();
        }
    }
}

#[test]
fn a_bounded_walk_gives_exactly_its_part() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, config(0)).unwrap();
    let blob = [3; 3_000];
    for _ in 0..40 {
        let event = ManifestEvent::CustomEvent { schema_id: 1, blob: &blob };
        manifest.record(SegmentId::from_u64(1), 0, event).unwrap();
    }
    manifest.commit().unwrap();
    let mut positions = Vec::new();
    let mut cursor = reader(&sim).cursor().unwrap();
    while let Some(placed) = cursor.next_record().unwrap() {
        positions.push(placed.position);
    }
    assert!(positions[39].chunk_index > 5);
    for (from, to) in [(0, 0), (0, 1), (0, 39), (7, 8), (3, 30), (39, 39), (20, 39)] {
        let mut part = reader(&sim).cursor_at(positions[from], Some(positions[to]));
        let expected: Vec<u64> = (from as u64..to as u64).collect();
        assert_eq!(drain(&mut part), expected, "{from} to {to}");
        assert_eq!(part.next_record().unwrap(), None);
    }
    let between = ManifestPosition { chunk_offset: positions[1].chunk_offset + 8, ..positions[1] };
    let error = reader(&sim).cursor_at(between, None).next_record().unwrap_err();
    assert!(matches!(error, AofError::InvalidRecord { .. }), "{error}");
}

/// The sync of the header was under way when the power went: a reader had seen the
/// commit, and it is gone.
#[test]
fn a_commit_that_a_crash_took_back_is_reported_to_who_saw_it() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, config(0)).unwrap();
    record_one(&manifest).unwrap();
    manifest.commit().unwrap();
    record_one(&manifest).unwrap();
    let mut cursor = reader(&sim).cursor().unwrap();
    assert_eq!(drain(&mut cursor), [0]);
    sim.crash_at(sim.calls() + OPENING_CALLS + 4);
    manifest.commit().unwrap_err();
    let image = sim.take_crash().unwrap();
    let seen = reader(&image.after_kill()).end().unwrap().unwrap();
    assert_eq!(seen.1, 2, "visible before the cut");
    let after = image.materialize(0, &CrashOptions::default());
    let mut cursor = reader(&after).cursor_at(seen.0, None);
    let error = cursor.next_record().unwrap_err();
    assert!(matches!(error, AofError::InvalidRecord { .. }), "{error}");

    // The same to one who is on the way: the file is another one by now.
    let machine = image.after_kill();
    let mut cursor = reader(&machine).cursor().unwrap();
    assert_eq!(drain(&mut cursor), [0, 1]);
    let path = reader(&after).layout().chunk_path(0);
    machine.write_file(&path, &after.read_file(&path).unwrap()).unwrap();
    let error = cursor.next_record().unwrap_err();
    assert!(matches!(error, AofError::PastEnd { offset: 2, end: 1, .. }), "{error}");
}

#[test]
fn only_one_lock_holder_but_any_number_of_readers() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, config(0)).unwrap();
    record_one(&manifest).unwrap();
    manifest.commit().unwrap();
    let mut cursors: Vec<_> = (0..5).map(|_| reader(&sim).cursor().unwrap()).collect();
    for cursor in &mut cursors {
        assert_eq!(drain(cursor), [0]);
    }
}

/// Recorders, committers and a reader at once: every ordinal is given once, and each
/// thread's records stand in the order it made them.
#[test]
fn threads_record_and_commit_side_by_side() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let sim = SimStorage::new();
    let manifest = open_with(&sim, config(0)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let manifest = &manifest;
            scope.spawn(move || {
                for i in 0..EACH {
                    let event = ManifestEvent::HydrationDone { resident_bytes: i };
                    let ordinal = manifest.record(SegmentId::from_u64(thread), i, event).unwrap();
                    match i % 7 {
                        0 => manifest.commit().unwrap(),
                        3 => drop(manifest.maintain().unwrap()),
                        _ => {}
                    }
                    if i % 50 == 0 {
                        manifest.commit().unwrap();
                        manifest.wait_committed(ordinal, None).unwrap();
                    }
                }
            });
        }
        let mut cursor = reader(&sim).cursor_at(ManifestPosition::start_of(0), None);
        let mut seen = 0;
        while seen < THREADS * EACH / 2 {
            match cursor.next_record() {
                Ok(Some(placed)) => {
                    assert_eq!(placed.ordinal, seen);
                    seen += 1;
                }
                Ok(None) => std::thread::yield_now(),
                // Retention was faster than this reader.
                Err(AofError::Trimmed { earliest }) => {
                    assert!(earliest > seen);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
    manifest.commit().unwrap();
    let expected = manifest.next_record();
    assert!(expected >= THREADS * EACH);
    assert_eq!(manifest.committed(), expected);
    let mut next = [0; THREADS as usize];
    let mut cursor = reader(&sim).cursor().unwrap();
    while let Some(placed) = cursor.next_record().unwrap() {
        if let ManifestEvent::HydrationDone { .. } = placed.record.event {
            let thread = placed.record.segment_id.as_u64() as usize;
            assert!(placed.record.logical_offset >= next[thread]);
            next[thread] = placed.record.logical_offset + 1;
        }
    }
    assert_eq!(next, [EACH; THREADS as usize]);
}
