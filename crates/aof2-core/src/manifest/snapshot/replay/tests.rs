//! What replay promises: the fold of all committed records, or an error that says what
//! is missing.

use proptest::prelude::*;

use super::*;
use crate::format::manifest::arbitrary::OwnedRecord;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::chunks::ManifestPosition;
use crate::manifest::index::history::histories;
use crate::manifest::snapshot::fixture::{Fixture, index_of, layout, replay_on};
use crate::manifest::snapshot::write_snapshot;

/// What the writer does between records.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append(usize),
    Commit,
    Rotate,
    Snapshot,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1usize..30).prop_map(Step::Append),
        2 => Just(Step::Commit),
        2 => Just(Step::Rotate),
        2 => Just(Step::Snapshot),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn replay_is_the_fold_of_what_was_committed(
        history in histories(300..301), steps in steps(), damage in any::<[bool; 3]>(),
    ) {
        let mut fixture = Fixture::new();
        let (mut next_id, mut at, mut committed) = (0, 0, 0);
        for step in steps {
            match step {
                Step::Append(count) => {
                    let end = (at + count).min(history.len());
                    fixture.append(&history[at..end]);
                    at = end;
                    continue;
                }
                Step::Commit => fixture.commit(),
                Step::Rotate => fixture.rotate(),
                Step::Snapshot => {
                    fixture.commit();
                    fixture.snapshot(next_id).unwrap();
                    next_id += 1;
                }
                Step::Reopen => {
                    fixture.commit();
                    fixture = Fixture::open(fixture.sim);
                }
            }
            committed = at;
        }
        let sim = fixture.sim;
        let expected = index_of(&history[..committed]);
        let (index, report) = replay_on(&sim).unwrap();
        prop_assert!(index == expected);
        prop_assert_eq!(report.snapshot.map(|info| info.snapshot_id), next_id.checked_sub(1));
        let skipped = report.snapshot.map_or(0, |info| info.next_record);
        prop_assert_eq!(report.records, committed as u64 - skipped);

        // Whatever snapshots are damaged, the rest tells the same.
        for (id, _) in (0..next_id).rev().zip(damage).filter(|(_, is_damaged)| *is_damaged) {
            sim.flip_bit(layout().snapshot_path(id), 700 + id).unwrap();
        }
        let (index, damaged_report) = replay_on(&sim).unwrap();
        prop_assert!(index == expected);
        let usable = (0..next_id).rev().zip(damage.into_iter().chain(std::iter::repeat(false)));
        let usable = usable.into_iter().find(|(_, is_damaged)| !is_damaged).map(|(id, _)| id);
        prop_assert_eq!(damaged_report.snapshot.map(|info| info.snapshot_id), usable);
    }
}

fn records(count: u64) -> Vec<OwnedRecord> {
    let record = |n| OwnedRecord {
        flags: 0,
        segment_id: n,
        logical_offset: 0,
        timestamp_ms: n,
        kind: 0,
        numbers: [n, 0, 0, 0],
        bit: false,
        key: String::new(),
        etag: String::new(),
        blob: Vec::new(),
    };
    (0..count).map(record).collect()
}

/// Chunks 0 to 2 with ten records each, the last one open.
fn three_chunks() -> (Fixture, Vec<OwnedRecord>) {
    let records = records(30);
    let mut fixture = Fixture::new();
    for part in records.chunks(10) {
        fixture.append(part);
        fixture.commit();
        if fixture.writer.next_record() < 30 {
            fixture.rotate();
        }
    }
    (fixture, records)
}

fn damage(error: AofError) -> Damage {
    match error {
        AofError::Corrupt(damage) => *damage,
        other => panic!("{other:?}"),
    }
}

/// Writes a snapshot of the first records, said to stand at this position.
fn snapshot_at(
    sim: &SimStorage,
    snapshot_id: u64,
    records: &[OwnedRecord],
    position: ManifestPosition,
) {
    let image = index_of(records).to_image(snapshot_id, position);
    write_snapshot(sim, &layout(), &image).unwrap();
}

#[test]
fn nothing_replays_to_nothing() {
    let (index, report) = replay_on(&SimStorage::new()).unwrap();
    assert!(index == ManifestIndex::new());
    assert_eq!(report, ReplayReport::default());
    let fixture = Fixture::new();
    fixture.snapshot(0).unwrap();
    let (index, report) = replay_on(&fixture.sim).unwrap();
    assert!(index == ManifestIndex::new());
    assert_eq!(report.snapshot.map(|info| info.next_record), Some(0));
}

#[test]
fn an_uncommitted_tail_is_not_replayed() {
    let (mut fixture, records) = three_chunks();
    let mut more = records.clone();
    more[0].segment_id = 99;
    fixture.append(&more[..1]);
    let (index, report) = replay_on(&fixture.sim).unwrap();
    assert!(index == index_of(&records));
    assert_eq!((report.records, report.chunks), (30, 3));
}

#[test]
fn any_flipped_bit_of_a_snapshot_makes_replay_use_the_one_before() {
    let (fixture, records) = three_chunks();
    let end_of_0 = ManifestPosition { chunk_index: 0, chunk_offset: 64 + 10 * 56 };
    snapshot_at(&fixture.sim, 4, &records[..10], end_of_0);
    snapshot_at(&fixture.sim, 5, &records[..20], ManifestPosition::start_of(2));
    let path = layout().snapshot_path(5);
    let bits = fixture.sim.read_file(&path).unwrap().len() as u64 * 8;
    // Every bit once would take minutes; every 13th meets every byte's every bit.
    for bit in (0..bits).step_by(13) {
        fixture.sim.flip_bit(&path, bit).unwrap();
        let (index, report) = replay_on(&fixture.sim).unwrap();
        assert!(index == index_of(&records));
        assert_eq!(report.snapshot.map(|info| info.snapshot_id), Some(4));
        assert_eq!(report.rejected.len(), 1);
        fixture.sim.flip_bit(&path, bit).unwrap();
    }
    let (_, report) = replay_on(&fixture.sim).unwrap();
    assert_eq!(report.snapshot.map(|info| info.snapshot_id), Some(5));
}

#[test]
fn a_snapshot_that_stands_at_no_record_is_passed_over() {
    let (fixture, records) = three_chunks();
    let at = |chunk_index, chunk_offset| ManifestPosition { chunk_index, chunk_offset };
    // Inside a record, at another record, behind the end of a chunk that is sealed.
    for position in [at(1, 64 + 8), at(1, 64 + 56), at(1, 64 + 56 * 11), at(0, 64)] {
        snapshot_at(&fixture.sim, 4, &records[..10], position);
        let (index, report) = replay_on(&fixture.sim).unwrap();
        assert!(index == index_of(&records));
        assert_eq!((report.snapshot, report.rejected.len()), (None, 1), "{position}");
    }
}

#[test]
fn a_snapshot_may_stand_at_either_side_of_a_chunks_end() {
    let (mut fixture, records) = three_chunks();
    fixture.rotate();
    let end = |chunk_index| ManifestPosition { chunk_index, chunk_offset: 64 + 10 * 56 };
    let start = ManifestPosition::start_of;
    // Chunk 3 is not there before its first commit.
    for (count, position) in
        [(10, end(0)), (10, start(1)), (20, end(1)), (30, end(2)), (30, start(3))]
    {
        snapshot_at(&fixture.sim, 4, &records[..count], position);
        let (index, report) = replay_on(&fixture.sim).unwrap();
        assert!(index == index_of(&records));
        assert_eq!(report.rejected, [], "{position}");
        assert_eq!(report.records, 30 - count as u64);
    }
}

#[test]
fn removed_chunks_are_not_missed_when_a_snapshot_holds_them() {
    let (fixture, records) = three_chunks();
    let end_of_0 = ManifestPosition { chunk_index: 0, chunk_offset: 64 + 10 * 56 };
    snapshot_at(&fixture.sim, 4, &records[..10], end_of_0);
    fixture.sim.remove(&layout().chunk_path(0)).unwrap();
    let (index, report) = replay_on(&fixture.sim).unwrap();
    assert!(index == index_of(&records), "chunk 1 goes on exactly where it ends");
    assert_eq!((report.records, report.chunks), (20, 2));

    fixture.sim.flip_bit(layout().snapshot_path(4), 2_000).unwrap();
    let damage = damage(replay_on(&fixture.sim).unwrap_err());
    assert_eq!(damage.records, 0..10, "these are nowhere");
    assert!(damage.path.ends_with("00000000000000000001.mlog"), "{damage}");
    assert!(damage.reason.contains("snapshot 4: checksum mismatch"), "{damage}");
}

#[test]
fn a_snapshot_older_than_the_chunks_is_passed_over() {
    let (fixture, records) = three_chunks();
    snapshot_at(
        &fixture.sim,
        3,
        &records[..5],
        ManifestPosition { chunk_index: 0, chunk_offset: 64 + 5 * 56 },
    );
    fixture.sim.remove(&layout().chunk_path(0)).unwrap();
    assert_eq!(damage(replay_on(&fixture.sim).unwrap_err()).records, 0..10);
    snapshot_at(&fixture.sim, 4, &records[..20], ManifestPosition::start_of(2));
    let (index, report) = replay_on(&fixture.sim).unwrap();
    assert!(index == index_of(&records));
    assert_eq!((report.records, report.rejected.len()), (10, 0));
}

/// A snapshot is written of committed records only. If the chunks end before it, records
/// that somebody was promised are gone, and an older state would be a lie.
#[test]
fn a_snapshot_ahead_of_the_chunks_stops_replay() {
    let (fixture, records) = three_chunks();
    let snapshot = ManifestPosition { chunk_index: 2, chunk_offset: 64 + 10 * 56 };
    snapshot_at(&fixture.sim, 4, &records, snapshot);
    replay_on(&fixture.sim).unwrap();
    fixture.sim.remove(&layout().chunk_path(2)).unwrap();
    let found = damage(replay_on(&fixture.sim).unwrap_err());
    assert_eq!(found.records, 20..30);
    assert!(found.path.ends_with("snapshot_00000000000000000004.bin"), "{found}");
    fixture.sim.remove(&layout().chunk_path(1)).unwrap();
    fixture.sim.remove(&layout().chunk_path(0)).unwrap();
    assert_eq!(damage(replay_on(&fixture.sim).unwrap_err()).records, 0..30);
}

#[test]
fn a_chunk_missing_in_the_middle_stops_a_full_replay() {
    let (fixture, _) = three_chunks();
    fixture.sim.remove(&layout().chunk_path(1)).unwrap();
    let found = damage(replay_on(&fixture.sim).unwrap_err());
    assert_eq!(found.records, 0..20, "{found}");
}

#[test]
fn a_chunk_that_repeats_records_stops_replay() {
    let (fixture, _) = three_chunks();
    let path = layout().chunk_path(1);
    let mut bytes = fixture.sim.read_file(&path).unwrap();
    bytes[24..32].copy_from_slice(&9u64.to_le_bytes());
    fixture.sim.write_file(&path, &bytes).unwrap();
    let found = damage(replay_on(&fixture.sim).unwrap_err());
    assert!(found.reason.contains("starts with record 9, not 10"), "{found}");
}

#[test]
fn damage_in_a_chunk_stops_replay_with_the_chunk_named() {
    let (fixture, records) = three_chunks();
    snapshot_at(&fixture.sim, 4, &records[..10], ManifestPosition::start_of(1));
    for chunk_index in [1, 2] {
        let path = layout().chunk_path(chunk_index);
        for bit in [(64 + 8) * 8, (64 + 40) * 8 + 3, (64 + 9 * 56 + 50) * 8 + 7] {
            fixture.sim.flip_bit(&path, bit).unwrap();
            let found = damage(replay_on(&fixture.sim).unwrap_err());
            assert_eq!(found.path, path);
            fixture.sim.flip_bit(&path, bit).unwrap();
        }
    }
    // Chunk 0 is not needed any more.
    fixture.sim.flip_bit(layout().chunk_path(0), 1_000).unwrap();
    assert!(replay_on(&fixture.sim).unwrap().0 == index_of(&records));
}
