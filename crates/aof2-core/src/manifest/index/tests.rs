//! What the index promises about the records folded into it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::history::{Model, fold_all, histories};
use super::segments::SegmentTable;
use super::*;
use crate::format::manifest::{ManifestEvent, ManifestRecord, ReasonCode, StoredChunkName};
use crate::format::{SegmentId, StreamId};

const POSITION: ManifestPosition = ManifestPosition::start_of(3);

/// The index after it was a file for a while.
fn through_snapshot(index: &ManifestIndex) -> ManifestIndex {
    let image = index.to_image(7, POSITION);
    let read = SnapshotImage::decode(&image.encode()).unwrap();
    assert_eq!(read, image);
    ManifestIndex::from_image(read)
}

proptest! {
    #[test]
    fn every_history_adds_up_to_what_the_model_says(history in histories(0..120)) {
        let mut index = ManifestIndex::new();
        fold_all(&mut index, &history, 0);
        Model::of(&history).check(&index);
        prop_assert_eq!(index.next_record(), history.len() as u64);
    }

    #[test]
    fn folding_again_changes_nothing(history in histories(1..80), from in any::<prop::sample::Index>()) {
        let mut once = ManifestIndex::new();
        fold_all(&mut once, &history, 0);
        let mut each_twice = ManifestIndex::new();
        for (ordinal, owned) in history.iter().enumerate() {
            each_twice.fold(ordinal as u64, &owned.record());
            let again = each_twice.fold(ordinal as u64, &owned.record());
            prop_assert_eq!(again, Folded::Already);
        }
        prop_assert!(each_twice == once);
        let mut all_twice = once.clone();
        fold_all(&mut all_twice, &history, from.index(history.len()));
        prop_assert!(all_twice == once);
    }

    #[test]
    fn a_snapshot_anywhere_changes_nothing(
        history in histories(1..100),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        overlap in 0usize..20,
    ) {
        let mut whole = ManifestIndex::new();
        fold_all(&mut whole, &history, 0);
        let mut index = ManifestIndex::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(history.len())).collect();
        cuts.sort_unstable();
        for cut in cuts {
            let from = (index.next_record() as usize).saturating_sub(overlap);
            fold_all(&mut index, &history[..cut], from);
            let read = through_snapshot(&index);
            prop_assert!(read == index);
            index = read;
        }
        let from = (index.next_record() as usize).saturating_sub(overlap);
        fold_all(&mut index, &history, from);
        prop_assert!(index == whole);
        prop_assert_eq!(index.to_image(7, POSITION), whole.to_image(7, POSITION));
    }

    #[test]
    fn the_table_is_a_map(steps in prop::collection::vec((any::<bool>(), 0u64..40, 0u64..5), 0..300)) {
        let mut table = SegmentTable::default();
        let mut map = BTreeMap::new();
        let mut top = 0;
        for (insert, back, ahead) in steps {
            // Around a front that moves on, sometimes in leaps.
            top += if ahead == 4 { 30 } else { ahead };
            let id = (top + 20).saturating_sub(back);
            let segment = ManifestSegment::opened(SegmentId::from_u64(id), top, 0);
            if insert {
                table.insert(segment.clone());
                map.insert(id, segment);
            } else {
                table.remove(SegmentId::from_u64(id));
                map.remove(&id);
            }
            prop_assert!(table.iter().eq(map.values()));
            prop_assert_eq!(table.len(), map.len());
            for id in (top + 25).saturating_sub(60)..top + 25 {
                prop_assert_eq!(table.get(SegmentId::from_u64(id)), map.get(&id));
                prop_assert_eq!(table.get_mut(SegmentId::from_u64(id)).is_some(), map.contains_key(&id));
            }
            table.check_invariants();
        }
    }
}

/// Feeds events about segments, one ordinal after the other.
#[derive(Default)]
struct Feed {
    index: ManifestIndex,
}

impl Feed {
    fn add(&mut self, segment_id: u64, event: ManifestEvent<'_>) -> Folded {
        let ordinal = self.index.next_record();
        let record = ManifestRecord {
            flags: 0,
            segment_id: SegmentId::from_u64(segment_id),
            logical_offset: 0,
            timestamp_ms: 1_000 + ordinal,
            event,
        };
        self.index.fold(ordinal, &record)
    }

    fn open(&mut self, segment_id: u64) {
        let base_offset = segment_id * 100;
        let event = ManifestEvent::SegmentOpened { base_offset, epoch: 0 };
        assert_eq!(self.add(segment_id, event), Folded::Applied);
    }

    fn get(&self, segment_id: u64) -> Option<&ManifestSegment> {
        self.index.get(SegmentId::from_u64(segment_id))
    }
}

const SEAL: ManifestEvent<'static> = ManifestEvent::SealSegment {
    durable_bytes: 500,
    segment_crc64: 1,
    ext_id: 2,
    coordinator_watermark: 3,
    flush_failure: false,
};
const COMPRESSED: ManifestEvent<'static> =
    ManifestEvent::CompressionDone { compressed_bytes: 100, dictionary_id: 0 };
const EVICTED: ManifestEvent<'static> = ManifestEvent::LocalEvicted { reclaimed_bytes: 10 };

#[test]
fn a_segment_is_forgotten_when_its_last_copy_goes() {
    let mut feed = Feed::default();
    feed.open(0);
    for event in [SEAL, COMPRESSED, ManifestEvent::UploadDone { key: "k", etag: "e" }] {
        feed.add(0, event);
    }
    feed.add(0, EVICTED);
    let segment = feed.get(0).unwrap();
    assert!(!segment.hot && segment.warm_bytes == Some(100), "the hot copy goes first");
    feed.add(0, EVICTED);
    let segment = feed.get(0).unwrap();
    assert_eq!((segment.warm_bytes, segment.cold_key.as_deref()), (None, Some("k")));
    assert_eq!(segment.reclaimed_bytes, 20);
    feed.add(0, ManifestEvent::Tier2DeleteQueued { key: "k" });
    assert!(feed.get(0).is_some(), "queued is not deleted");
    assert_eq!(feed.index.pending_deletes().count(), 1);
    feed.add(0, ManifestEvent::Tier2Deleted { key: "other" });
    assert!(feed.get(0).is_some(), "another object of the segment is gone");
    feed.add(0, ManifestEvent::Tier2Deleted { key: "k" });
    assert_eq!(feed.get(0), None);
    assert_eq!(feed.index.pending_deletes().count(), 0);
    let late = ManifestEvent::HydrationFailed { reason: ReasonCode::MISSING };
    assert_eq!(feed.add(0, late), Folded::Late);
    assert_eq!(feed.index.counts().late_records, 1);
    assert_eq!(feed.index.unresolved().count(), 0, "nobody will open it again");
}

#[test]
fn records_about_a_future_segment_wait_until_it_is_opened() {
    let mut feed = Feed::default();
    feed.open(0);
    assert_eq!(feed.add(1, SEAL), Folded::Queued);
    assert_eq!(feed.add(1, ManifestEvent::UploadStarted { key: "k" }), Folded::Queued);
    assert_eq!(feed.add(1, ManifestEvent::UploadDone { key: "k", etag: "e" }), Folded::Queued);
    assert_eq!(feed.index.segment_count(), 1);
    assert_eq!(feed.index.unresolved().count(), 3);
    assert_eq!(feed.index.pending_uploads().count(), 0, "the object is known to be there");
    feed.open(1);
    assert_eq!(feed.index.unresolved().count(), 0);
    let segment = feed.get(1).unwrap();
    assert_eq!(segment.durable_bytes, Some(500));
    assert_eq!(segment.cold_key.as_deref(), Some("k"));
    assert_eq!((segment.last_record, segment.updated_at_ms), (4, 1_004), "the newest record");
    assert_eq!(segment.sealed_at_ms, Some(1_001), "when it happened, not when it was resolved");
}

#[test]
fn the_queue_of_unresolved_records_is_bounded_and_counts_what_it_drops() {
    let mut feed = Feed::default();
    for _ in 0..UNRESOLVED_COUNT_MAX {
        assert_eq!(feed.add(5, EVICTED), Folded::Queued);
    }
    assert_eq!(feed.add(6, EVICTED), Folded::Dropped);
    assert_eq!(feed.index.counts().unresolved_dropped, 1);
    assert_eq!(feed.index.unresolved().count(), UNRESOLVED_COUNT_MAX);
    feed.open(5);
    assert_eq!(feed.index.unresolved().count(), 0, "there is space again");
    assert_eq!(feed.add(6, EVICTED), Folded::Queued);

    let mut feed = Feed::default();
    let key = "k".repeat(60_000);
    while feed.add(5, ManifestEvent::UploadDone { key: &key, etag: "" }) == Folded::Queued {}
    let bytes: usize = feed.index.unresolved().map(|record| record.bytes.len()).sum();
    assert!(bytes <= UNRESOLVED_BYTES_MAX && bytes > UNRESOLVED_BYTES_MAX - 70_000);
    let mut feed = Feed { index: through_snapshot(&feed.index) };
    let done = ManifestEvent::UploadDone { key: &key, etag: "" };
    assert_eq!(feed.add(6, done), Folded::Dropped, "a snapshot does not make space");
    feed.open(5);
    assert_eq!(feed.add(6, done), Folded::Queued, "what was resolved does");
}

#[test]
fn an_upload_stays_pending_through_failures_until_it_is_done() {
    let mut feed = Feed::default();
    feed.open(0);
    let started = ManifestEvent::UploadStarted { key: "k" };
    feed.add(0, started);
    let failed = ManifestEvent::UploadFailed { key: "k", reason: ReasonCode::UNAVAILABLE };
    feed.add(0, failed);
    let upload = feed.index.pending_upload("k").unwrap();
    assert_eq!((upload.attempts, upload.failure), (1, Some(ReasonCode::UNAVAILABLE)));
    assert_eq!(feed.get(0).unwrap().upload_failure, Some(3));
    feed.add(0, started);
    let upload = feed.index.pending_upload("k").unwrap();
    assert_eq!((upload.attempts, upload.failure), (2, None));
    assert_eq!((upload.started_at_ms, upload.updated_at_ms), (1_001, 1_003));
    feed.add(0, ManifestEvent::UploadDone { key: "k", etag: "e" });
    assert_eq!(feed.index.pending_uploads().count(), 0);
    let segment = feed.get(0).unwrap();
    assert_eq!((segment.upload_failure, segment.cold_key.as_deref()), (None, Some("k")));
}

/// A tier that gives up on an upload deletes the object, which may be there after all.
/// Otherwise the upload would be tried again after every restart.
#[test]
fn deleting_an_object_ends_its_pending_upload() {
    let mut feed = Feed::default();
    feed.open(0);
    for key in ["queued", "deleted", "other"] {
        feed.add(0, ManifestEvent::UploadStarted { key });
        feed.add(0, ManifestEvent::UploadFailed { key, reason: ReasonCode::AUTH });
    }
    feed.add(0, ManifestEvent::Tier2DeleteQueued { key: "queued" });
    feed.add(0, ManifestEvent::Tier2Deleted { key: "deleted" });
    let pending: Vec<&str> = feed.index.pending_uploads().map(|u| u.key.as_str()).collect();
    assert_eq!(pending, ["other"]);
    assert_eq!(
        feed.index.pending_deletes().map(|d| d.key.as_str()).collect::<Vec<_>>(),
        ["queued"]
    );
}

/// Chunk uploads carry segment 0, which is also the id of the first segment.
#[test]
fn uploads_of_manifest_chunks_touch_no_segment() {
    let key = StoredChunkName { stream_id: StreamId::from_u64(1), lineage: 0, chunk_index: 0 }
        .key("prefix");
    let mut feed = Feed::default();
    assert_eq!(feed.add(0, ManifestEvent::UploadStarted { key: &key }), Folded::Applied);
    assert_eq!(feed.index.pending_uploads().count(), 1);
    assert_eq!((feed.index.segment_count(), feed.index.unresolved().count()), (0, 0));
    feed.open(0);
    let before = feed.get(0).cloned();
    let failed = ManifestEvent::UploadFailed { key: &key, reason: ReasonCode::AUTH };
    for event in [
        failed,
        ManifestEvent::UploadDone { key: &key, etag: "e" },
        ManifestEvent::Tier2DeleteQueued { key: &key },
        ManifestEvent::Tier2Deleted { key: &key },
    ] {
        feed.add(0, event);
        assert_eq!(feed.get(0), before.as_ref());
    }
    assert_eq!(feed.index.pending_uploads().count() + feed.index.pending_deletes().count(), 0);
}

#[test]
fn markers_custom_events_and_unknown_types_make_no_segment() {
    let mut feed = Feed::default();
    let marker = ManifestEvent::SnapshotMarker { chunk_index: 0, chunk_offset: 64, snapshot_id: 1 };
    assert_eq!(feed.add(0, marker), Folded::Passed);
    let custom = ManifestEvent::CustomEvent { schema_id: 1, blob: b"x" };
    assert_eq!(feed.add(0, custom), Folded::Passed);
    let unknown = ManifestEvent::Unknown { record_type: 99, payload: b"x" };
    assert_eq!(feed.add(0, unknown), Folded::Unknown);
    assert_eq!((feed.index.segment_count(), feed.index.unresolved().count()), (0, 0));
    assert_eq!((feed.index.unknown_types(), feed.index.next_record()), (1, 3));
}

#[test]
fn a_segment_opened_again_keeps_what_is_known_unless_it_is_another_incarnation() {
    let mut feed = Feed::default();
    feed.open(0);
    feed.add(0, SEAL);
    feed.add(0, COMPRESSED);
    feed.add(0, EVICTED);
    feed.open(0);
    let segment = feed.get(0).unwrap();
    assert!(segment.hot && segment.is_sealed() && segment.warm_bytes.is_some());
    feed.add(0, ManifestEvent::SegmentOpened { base_offset: 0, epoch: 1 });
    let segment = feed.get(0).unwrap();
    assert!(segment.hot && !segment.is_sealed() && segment.warm_bytes.is_none());
}

/// A stream that lives for ever must not fill memory with what it has forgotten, not
/// even when one old segment stays for ever.
#[test]
fn the_index_grows_with_what_exists_not_with_what_was() {
    let mut feed = Feed::default();
    feed.open(0);
    for id in 1..50_000 {
        feed.open(id);
        feed.add(id, SEAL);
        if id > 10 {
            feed.add(id - 10, EVICTED);
        }
    }
    assert_eq!(feed.index.segment_count(), 11);
    feed.index.segments.check_invariants();
    assert!(feed.index.to_image(1, POSITION).encode().len() < 4096);
}
