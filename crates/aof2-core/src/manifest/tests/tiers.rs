//! A segment on its way through the tiers, as a coordinator records it: after every step
//! a restart finds where the segment is and what was under way.

use std::time::Instant;

use super::driver::{config, open_with};
use crate::error::AofError;
use crate::format::SegmentId;
use crate::format::manifest::{ManifestEvent, ManifestSegment, ReasonCode};
use crate::io::sim::{CrashOptions, SimStorage};
use crate::manifest::ManifestIndex;

const SEGMENT: SegmentId = SegmentId::from_u64(0);
const KEY: &str = "s/0000000000000001/00000000000000000000-00000000.zst";

/// Records an event, makes it durable, cuts the power, and gives what is found then.
fn after(sim: &mut SimStorage, event: ManifestEvent<'_>) -> ManifestIndex {
    let manifest = open_with(sim, config(0)).unwrap();
    let ordinal = manifest.record(SEGMENT, 500, event).unwrap();
    let passed = Some(Instant::now());
    assert!(matches!(manifest.wait_committed(ordinal, passed), Err(AofError::Timeout { .. })));
    manifest.commit().unwrap();
    manifest.wait_committed(ordinal, None).unwrap();
    let told = manifest.index();
    drop(manifest);
    *sim = sim.image().materialize(0, &CrashOptions::default());
    let found = open_with(sim, config(0)).unwrap().index();
    assert!(found == told, "a cut changed what {} says", event.name());
    found
}

fn places(segment: &ManifestSegment) -> (bool, bool, bool) {
    (segment.hot, segment.warm_bytes.is_some(), segment.cold_key.is_some())
}

#[test]
fn a_restart_finds_every_segment_where_it_is_and_every_job_that_was_under_way() {
    let sim = &mut SimStorage::new();
    let segment = |index: &ManifestIndex| index.get(SEGMENT).cloned().unwrap();
    after(sim, ManifestEvent::SegmentOpened { base_offset: 0, epoch: 0 });
    let seal = ManifestEvent::SealSegment {
        durable_bytes: 500,
        segment_crc64: 7,
        ext_id: 8,
        coordinator_watermark: 9,
        flush_failure: false,
    };
    let known = segment(&after(sim, seal));
    assert_eq!((places(&known), known.resident_bytes), ((true, false, false), 500));

    // Warm, at the second try.
    let known = segment(&after(sim, ManifestEvent::CompressionStarted { job_id: 3 }));
    assert_eq!(known.compression_job, Some(3));
    let reason = ReasonCode::TRANSIENT;
    let known = segment(&after(sim, ManifestEvent::CompressionFailed { reason }));
    assert_eq!((known.compression_job, known.compression_failure), (None, Some(0)));
    let done = ManifestEvent::CompressionDone { compressed_bytes: 100, dictionary_id: 0 };
    let known = segment(&after(sim, done));
    assert_eq!((places(&known), known.compression_failure), ((true, true, false), None));

    // Cold, at the second try.
    let index = after(sim, ManifestEvent::UploadStarted { key: KEY });
    assert_eq!(index.pending_upload(KEY).map(|u| (u.segment_id, u.attempts)), Some((SEGMENT, 1)));
    let reason = ReasonCode::UNAVAILABLE;
    let index = after(sim, ManifestEvent::UploadFailed { key: KEY, reason });
    assert_eq!(index.pending_upload(KEY).and_then(|u| u.failure), Some(reason));
    assert_eq!(segment(&index).upload_failure, Some(3));
    let index = after(sim, ManifestEvent::UploadDone { key: KEY, etag: "e" });
    assert_eq!(index.pending_uploads().count(), 0);
    assert_eq!(places(&segment(&index)), (true, true, true));

    // The hot copy goes, then the warm one.
    let evicted = ManifestEvent::LocalEvicted { reclaimed_bytes: 500 };
    assert_eq!(places(&segment(&after(sim, evicted))), (false, true, true));
    let evicted = ManifestEvent::LocalEvicted { reclaimed_bytes: 100 };
    let known = segment(&after(sim, evicted));
    assert_eq!((places(&known), known.reclaimed_bytes), ((false, false, true), 600));

    // Back, at the second try.
    let known = segment(&after(sim, ManifestEvent::HydrationStarted { source_tier: 2 }));
    assert_eq!(known.hydration_source, Some(2));
    let reason = ReasonCode::MISSING;
    let known = segment(&after(sim, ManifestEvent::HydrationFailed { reason }));
    assert_eq!((known.hydration_source, known.hydration_failure), (None, Some(4)));
    let known = segment(&after(sim, ManifestEvent::HydrationDone { resident_bytes: 500 }));
    assert_eq!((places(&known), known.resident_bytes), ((true, false, true), 500));

    // Deleted everywhere, and forgotten.
    let index = after(sim, ManifestEvent::Tier2DeleteQueued { key: KEY });
    assert_eq!(index.pending_deletes().map(|d| d.key.as_str()).collect::<Vec<_>>(), [KEY]);
    let index = after(sim, ManifestEvent::Tier2Deleted { key: KEY });
    assert_eq!((index.pending_deletes().count(), places(&segment(&index)).2), (0, false));
    let index = after(sim, ManifestEvent::LocalEvicted { reclaimed_bytes: 500 });
    assert_eq!((index.get(SEGMENT), index.opened_end()), (None, 1));
}
