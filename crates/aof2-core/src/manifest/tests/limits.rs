//! What is refused, and what stays bounded.

use super::driver::{config, open_with, reader};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::format::manifest::ManifestEvent;
use crate::io::sim::SimStorage;
use crate::manifest::{BLOB_LEN_MAX, KEY_LEN_MAX, ManifestConfig};

#[test]
fn records_that_are_too_long_or_unknown_are_refused_and_leave_no_trace() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, config(0)).unwrap();
    let long = "k".repeat(KEY_LEN_MAX + 1);
    let fits = &long[1..];
    let blob = vec![0; BLOB_LEN_MAX + 1];
    let record = |event| manifest.record(SegmentId::from_u64(1), 0, event);
    for event in [
        ManifestEvent::UploadStarted { key: &long },
        ManifestEvent::UploadDone { key: fits, etag: &long },
        ManifestEvent::UploadDone { key: &long, etag: fits },
        ManifestEvent::Tier2Deleted { key: &long },
        ManifestEvent::CustomEvent { schema_id: 1, blob: &blob },
        ManifestEvent::Unknown { record_type: 77, payload: b"x" },
    ] {
        let refused = record(event);
        assert!(matches!(refused, Err(AofError::InvalidRecord { .. })), "{refused:?}");
    }
    assert_eq!(manifest.next_record(), 0);
    record(ManifestEvent::UploadDone { key: fits, etag: fits }).unwrap();
    record(ManifestEvent::CustomEvent { schema_id: 1, blob: &blob[1..] }).unwrap();
    manifest.commit().unwrap();
    let mut cursor = reader(&sim).cursor().unwrap();
    cursor.next_record().unwrap().unwrap();
    let placed = cursor.next_record().unwrap().unwrap();
    assert_eq!(placed.record.event, ManifestEvent::CustomEvent { schema_id: 1, blob: &blob[1..] });
}

#[test]
fn what_waits_for_a_commit_is_bounded_without_any_upkeep() {
    let sim = SimStorage::new();
    let config = ManifestConfig {
        staged_bytes_max: 64 << 10,
        commit_bytes: 64 << 10,
        ..ManifestConfig::local()
    };
    let manifest = open_with(&sim, config).unwrap();
    let blob = vec![5; 10_000];
    for i in 0..100 {
        let event = ManifestEvent::CustomEvent { schema_id: 1, blob: &blob };
        let ordinal = manifest.record(SegmentId::from_u64(1), 0, event).unwrap();
        assert_eq!(ordinal, i);
        assert!(ordinal + 1 - manifest.committed() <= 7, "at {i}");
    }
}

#[test]
fn a_commit_costs_what_it_adds() {
    // One record in an almost full chunk: the same two writes and syncs as in an empty
    // one, and not a byte read.
    let sim = SimStorage::new();
    let config = ManifestConfig { chunk_bytes: 64 << 10, ..ManifestConfig::local() };
    let manifest = open_with(&sim, config).unwrap();
    let one = || {
        crate::manifest::tests::driver::record_one(&manifest).unwrap();
        let before = sim.calls();
        manifest.commit().unwrap();
        sim.calls() - before
    };
    one();
    let early = one();
    for _ in 0..900 {
        crate::manifest::tests::driver::record_one(&manifest).unwrap();
    }
    manifest.commit().unwrap();
    assert_eq!(one(), early);
    assert_eq!(early, crate::manifest::tests::driver::OPENING_CALLS + 5);
}
