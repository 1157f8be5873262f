//! The manifest between processes: a reader elsewhere sees it grow, and a writer that is
//! killed leaves everything it had committed.
//!
//! `AOF2_KILL_ROUNDS` sets the number of kills.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::sync::Arc;

use aof2_core::format::manifest::ManifestEvent;
use aof2_core::io::{OsStorage, Storage, SystemClock};
use aof2_core::manifest::{Manifest, ManifestConfig, ManifestReader, verify_manifest};
use aof2_core::{SegmentId, StreamId};
use support::{Helper, tell};

const STREAM: StreamId = StreamId::from_u64(77);

fn config() -> ManifestConfig {
    ManifestConfig {
        chunk_bytes: 16 << 10,
        snapshot_every_chunks: 3,
        commit_ms: 1,
        ..ManifestConfig::local()
    }
}

fn open(root: &Path) -> Manifest {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    Manifest::open(storage, Arc::new(SystemClock), root, STREAM, config()).unwrap()
}

fn reader(root: &Path) -> ManifestReader {
    ManifestReader::new(Arc::new(OsStorage), root, STREAM)
}

/// What a record says depends on its number alone: `logical_offset` is that number.
fn record(manifest: &Manifest, number: u64) {
    let blob = vec![number as u8; (number * 37 % 700) as usize + 1];
    let event = ManifestEvent::CustomEvent { schema_id: 1, blob: &blob };
    manifest.record(SegmentId::from_u64(number % 5), number, event).unwrap();
}

fn check(number: u64, event: &ManifestEvent<'_>) {
    let blob = vec![number as u8; (number * 37 % 700) as usize + 1];
    assert_eq!(*event, ManifestEvent::CustomEvent { schema_id: 1, blob: &blob });
}

#[test]
fn helper_process() {
    match support::role().as_deref() {
        Some("writer") => write_on_command(),
        Some("victim") => write_until_killed(),
        _ => {}
    }
}

fn write_on_command() {
    let manifest = open(&support::root());
    let mut number = 0;
    tell(format_args!("open"));
    while let Some(command) = support::command() {
        match command.as_str() {
            "record" => {
                record(&manifest, number);
                number += 1;
            }
            "commit" => manifest.commit().unwrap(),
            "rotate" => manifest.rotate().unwrap(),
            _ => break,
        }
        tell(format_args!("done"));
    }
}

#[test]
fn a_reader_in_another_process_sees_the_manifest_grow() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Helper::start("writer", dir.path(), &[]);
    writer.expect("open");
    let mut cursor = reader(dir.path()).cursor().unwrap();
    let mut expected = 0;
    for round in 0..60_u64 {
        for _ in 0..round % 3 + 1 {
            assert_eq!(writer.ask("record"), "done");
        }
        assert!(cursor.next_record().unwrap().is_none(), "recorded is not committed");
        assert_eq!(writer.ask("commit"), "done");
        if round % 7 == 6 {
            assert_eq!(writer.ask("rotate"), "done");
        }
        for _ in 0..round % 3 + 1 {
            let placed = cursor.next_record().unwrap().expect("committed is visible");
            assert_eq!((placed.ordinal, placed.record.logical_offset), (expected, expected));
            check(expected, &placed.record.event);
            expected += 1;
        }
        assert!(cursor.next_record().unwrap().is_none());
    }
    assert!(cursor.position().chunk_index > 5);
    assert!(writer.finish().success());
}

/// Commits every few records and says how far it is, until it is killed.
fn write_until_killed() {
    let manifest = open(&support::root());
    let mut number = support::setting("NEXT", 0);
    loop {
        for _ in 0..number % 4 + 1 {
            record(&manifest, number);
            number += 1;
        }
        match number % 3 {
            0 => manifest.commit().unwrap(),
            _ => drop(manifest.maintain().unwrap()),
        }
        tell(format_args!("{}", manifest.committed()));
    }
}

#[test]
fn a_killed_writer_leaves_everything_it_had_committed() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    let mut next = 0;
    for round in 0..support::setting("AOF2_KILL_ROUNDS", 8) {
        let mut victim = Helper::start("victim", dir.path(), &[("NEXT", next)]);
        let mut committed = 0;
        for _ in 0..20 + round * 13 % 60 {
            committed = committed.max(victim.line().parse().unwrap());
        }
        for line in victim.kill() {
            committed = committed.max(line.parse().unwrap_or(0));
        }
        let report = verify_manifest(&storage, dir.path()).unwrap();
        assert!(report.is_healthy(), "{:?}", report.problems);
        let manifest = open(dir.path());
        assert!(manifest.committed() >= committed, "{} of {committed}", manifest.committed());
        assert_eq!(manifest.index().next_record(), manifest.committed());
        // Old chunks may be gone; what is there goes on without a gap to the end.
        let mut cursor = reader(dir.path()).cursor().unwrap();
        let mut last: Option<u64> = None;
        let mut ordinal = None;
        while let Some(placed) = cursor.next_record().unwrap() {
            assert!(ordinal.is_none_or(|before: u64| before + 1 == placed.ordinal));
            ordinal = Some(placed.ordinal);
            if let ManifestEvent::CustomEvent { .. } = placed.record.event {
                let number = placed.record.logical_offset;
                check(number, &placed.record.event);
                assert!(last.is_none_or(|before| before + 1 == number), "{last:?} then {number}");
                last = Some(number);
            }
        }
        assert_eq!(ordinal.map(|last| last + 1), Some(manifest.committed()));
        next = last.map_or(0, |last| last + 1);
    }
}
