//! What snapshot files promise: whole or not there, never fewer good ones than before.

use std::io;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::format::StreamId;
use crate::format::manifest::arbitrary::OwnedRecord;
use crate::io::OsStorage;
use crate::io::sim::{CrashOptions, Fault, SimStorage};
use crate::manifest::index::history::histories;
use crate::manifest::snapshot::fixture::{Fixture, index_of, layout, newest, replay_on};

/// One history, always the same.
fn history(len: usize) -> Vec<OwnedRecord> {
    let mut runner = TestRunner::deterministic();
    histories(len..len + 1).new_tree(&mut runner).unwrap().current()
}

/// A manifest with snapshots 1 and 2, and records behind them, all of it on disk.
fn prepared(history: &[OwnedRecord]) -> Fixture {
    let mut fixture = Fixture::new();
    for (id, records) in [(Some(1), 0..30), (Some(2), 30..60), (None, 60..90)] {
        fixture.append(&history[records]);
        fixture.commit();
        if id == Some(2) {
            fixture.rotate();
        }
        if let Some(id) = id {
            fixture.snapshot(id).unwrap();
        }
    }
    fixture
}

/// Writes snapshot 3 and prunes; how far it got.
fn write_and_prune(fixture: &Fixture) -> (bool, bool) {
    let is_written = fixture.snapshot(3).is_ok();
    let is_pruned = is_written && fixture.prune(2).is_ok();
    (is_written, is_pruned)
}

fn check_after_cut(sim: &SimStorage, history: &[OwnedRecord], is_written: bool) {
    let found = newest(sim).unwrap().snapshot_id;
    assert!(found == 3 || (found == 2 && !is_written), "snapshot {found} is the newest");
    let (index, report) = replay_on(sim).unwrap();
    assert!(index == index_of(&history[..90]));
    assert_eq!(report.snapshot.map(|info| info.snapshot_id), Some(found));
    assert_eq!(report.rejected, [], "a crash leaves no damaged snapshot");
}

#[test]
fn a_cut_while_a_snapshot_is_written_or_pruned_leaves_the_old_or_the_new_one() {
    let history = history(90);
    let mut states = 0;
    for call in 0.. {
        for is_after in [false, true] {
            let fixture = prepared(&history);
            let at = fixture.sim.calls() + call;
            match is_after {
                false => fixture.sim.crash_at(at),
                true => fixture.sim.crash_after(at),
            }
            let (is_written, is_pruned) = write_and_prune(&fixture);
            let Some(image) = fixture.sim.take_crash() else {
                assert!(is_pruned && call > 8, "{call} calls");
                println!("{call} calls, {states} crash states");
                return;
            };
            for seed in 0..12 {
                let sim = image.materialize(seed, &CrashOptions::default());
                check_after_cut(&sim, &history, is_written);
                // The next writer goes on, and clears up.
                let again = Fixture::open(sim);
                assert_eq!(write_and_prune(&again), (true, true));
                check_after_cut(&again.sim, &history, true);
                let left = list(&again.sim, &layout()).unwrap();
                assert_eq!((left.snapshots, left.temporaries), (vec![2, 3], vec![]));
                states += 1;
            }
        }
    }
}

#[test]
fn a_failing_call_is_an_error_and_costs_no_snapshot() {
    let history = history(90);
    for call in 0.. {
        let fixture = prepared(&history);
        fixture.sim.fail_at(fixture.sim.calls() + call, Fault::Error(io::ErrorKind::Other));
        let (is_written, is_pruned) = write_and_prune(&fixture);
        if is_pruned && call > 30 {
            break;
        }
        fixture.sim.clear_faults();
        check_after_cut(&fixture.sim, &history, is_written);
        assert_eq!(write_and_prune(&fixture), (true, true), "it works when tried again");
        check_after_cut(&fixture.sim, &history, true);
    }
}

#[test]
fn a_full_disk_is_an_error_and_the_old_snapshot_stays() {
    let history = history(90);
    let fixture = prepared(&history);
    fixture.sim.set_capacity_len(Some(fixture.sim.used_len()));
    assert!(fixture.snapshot(3).unwrap_err().is_disk_full());
    check_after_cut(&fixture.sim, &history, false);
}

#[test]
fn pruning_keeps_the_newest_that_validate_and_removes_what_is_older() {
    let mut fixture = Fixture::new();
    for (id, owned) in history(5).iter().enumerate() {
        fixture.append(std::slice::from_ref(owned));
        fixture.commit();
        fixture.snapshot(id as u64).unwrap();
    }
    let damaged = layout().snapshot_path(3);
    fixture.sim.flip_bit(&damaged, 999).unwrap();
    let foreign = layout().dir().join("snapshot_1.bin");
    fixture.sim.write_file(&foreign, b"not ours").unwrap();
    let half = layout().dir().join(SnapshotFileName { snapshot_id: 9 }.format_temporary());
    fixture.sim.write_file(&half, b"half").unwrap();
    assert_eq!(next_snapshot_id(&fixture.sim, &layout()).unwrap(), 10, "an id is used once");

    let pruned = prune_snapshots(&fixture.sim, &layout(), 2).unwrap();
    let kept: Vec<u64> = pruned.kept.iter().map(|info| info.snapshot_id).collect();
    assert_eq!((kept, pruned.removed), (vec![4, 2], vec![0, 1]));
    assert_eq!(pruned.rejected.len(), 1, "a damaged one does not count as kept");
    assert_eq!(pruned.rejected[0].snapshot_id, 3);
    assert_eq!(list_snapshots(&fixture.sim, &layout()).unwrap(), [2, 3, 4]);
    let files = fixture.sim.files();
    assert!(files.contains(&foreign) && !files.contains(&half));

    let pruned = prune_snapshots(&fixture.sim, &layout(), 0).unwrap();
    assert_eq!(pruned.kept.len(), 1, "at least one stays");
    assert_eq!(pruned.removed, [2, 3]);
}

#[test]
fn without_a_directory_there_are_no_snapshots() {
    let sim = SimStorage::new();
    assert_eq!(list_snapshots(&sim, &layout()).unwrap(), []);
    assert_eq!(next_snapshot_id(&sim, &layout()).unwrap(), 0);
    assert_eq!(load_newest_snapshot(&sim, &layout()).unwrap(), (None, vec![]));
    assert_eq!(prune_snapshots(&sim, &layout(), 2).unwrap(), PrunedSnapshots::default());
}

#[test]
fn files_that_are_no_snapshot_are_rejected_with_a_reason() {
    let fixture = prepared(&history(90));
    let good = fixture.sim.read_file(layout().snapshot_path(2)).unwrap();
    let longer = [&good[..], &[0; 8]].concat();
    let cases: [(&str, &[u8]); 5] = [
        ("no snapshot has 0 bytes", b""),
        ("no snapshot has 100 bytes", &[0; 100]),
        ("bad magic", &[0; 4096]),
        ("checksum mismatch", &longer),
        ("it says that it is snapshot 2", &good),
    ];
    for (reason, bytes) in cases {
        fixture.sim.write_file(layout().snapshot_path(7), bytes).unwrap();
        let (image, rejected) = load_newest_snapshot(&fixture.sim, &layout()).unwrap();
        assert_eq!(image.unwrap().snapshot_id, 2);
        assert_eq!(rejected.len(), 1);
        assert!(rejected[0].reason.contains(reason), "{}", rejected[0].reason);
    }
}

/// A file that claims to be enormous must not take memory.
#[test]
fn a_file_longer_than_any_snapshot_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    let layout = ManifestLayout::new(root.path(), StreamId::from_u64(1));
    OsStorage.create_dir_all(layout.dir()).unwrap();
    let file = OsStorage.create_new(&layout.snapshot_path(7)).unwrap();
    // A hole of a gigabyte takes no space.
    file.write_all_at(b"x", SNAPSHOT_LEN_MAX as u64).unwrap();
    let rejected = load_snapshot(&OsStorage, &layout, 7).unwrap_err();
    assert!(rejected.reason.contains("no snapshot has 1073741825 bytes"), "{}", rejected.reason);
}
