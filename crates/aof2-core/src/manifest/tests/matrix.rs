//! The integration matrix of the manifest: one test for each row.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::driver::{FlakyStore, OPENING_CALLS, ROOT, STREAM, open_with, reader, record_one};
use crate::format::manifest::{ManifestEvent, ReasonCode, StoredChunkName};
use crate::format::{Crc64, SegmentId, crc64};
use crate::io::Storage;
use crate::io::sim::{CrashOptions, SimStorage};
use crate::manifest::{
    ChunkUploader, DirectoryUploader, Manifest, ManifestConfig, ManifestLayout, ManifestReader,
    replay, restore_chunks, verify_manifest,
};

fn small() -> ManifestConfig {
    ManifestConfig { chunk_bytes: 16 << 10, snapshot_every_chunks: 0, ..ManifestConfig::local() }
}

fn custom(manifest: &Manifest, len: usize) -> u64 {
    let blob = vec![len as u8; len];
    let event = ManifestEvent::CustomEvent { schema_id: 1, blob: &blob };
    manifest.record(SegmentId::from_u64(1), 0, event).unwrap()
}

fn open_segment(manifest: &Manifest, segment: u64) {
    let event = ManifestEvent::SegmentOpened { base_offset: segment * 1_000, epoch: 0 };
    manifest.record(SegmentId::from_u64(segment), 0, event).unwrap();
}

/// Rotation boundaries: records of every size force many rotations; the checksum of each
/// chunk goes on from commit to commit, and the ordinals from chunk to chunk.
#[test]
fn rotation_boundaries() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, small()).unwrap();
    let mut expected = Vec::new();
    for step in 0..400_usize {
        let len = match step % 10 {
            9 => 1 + step * 163 % 60_000,
            3 => 16_200 + step % 100,
            _ => 1 + step * 37 % 900,
        };
        assert_eq!(custom(&manifest, len), expected.len() as u64);
        expected.push(len);
        if step % 3 == 0 {
            manifest.commit().unwrap();
        }
    }
    manifest.close().unwrap();

    let mut ordinal = 0;
    let mut chunk_count = 0;
    for chunk in reader(&sim).chunks().unwrap() {
        let chunk = chunk.unwrap();
        assert_eq!(chunk.index(), chunk_count);
        assert_eq!(chunk.header().base_record, ordinal, "no gap at chunk {chunk_count}");
        let file = sim.read_file(chunk.path()).unwrap();
        assert!(file.len() >= 16 << 10, "preallocated");
        assert_eq!((file.len() - (16 << 10)) % (64 << 10), 0, "grown in steps of 64 KiB");
        assert_eq!(crc64(&chunk.bytes()[64..]), chunk.header().chunk_crc64);
        let mut running = Crc64::new();
        for placed in chunk.records() {
            let placed = placed.unwrap();
            let range = placed.position.chunk_offset as usize..placed.end_offset as usize;
            running.update(&file[range]);
            match placed.record.event {
                ManifestEvent::CustomEvent { blob, .. } => {
                    assert_eq!(blob.len(), expected[ordinal as usize]);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(placed.ordinal, ordinal);
            ordinal += 1;
        }
        assert_eq!(running.finish(), chunk.header().chunk_crc64);
        chunk_count += 1;
    }
    assert_eq!(ordinal, expected.len() as u64);
    assert!(chunk_count > 40, "{chunk_count} chunks");
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let report = verify_manifest(&storage, ROOT).unwrap();
    assert!(report.is_healthy() && report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.record_count, ordinal);
}

/// Crash on commit: the process ends after writing the records and before updating the
/// header. The tail is found, trimmed and not appended twice.
pub(super) fn crash_on_commit() -> Result<(), String> {
    // The calls of a commit: records, tail offset, sync, committed length, sync.
    for (call, has_tail, is_committed) in
        [(0, false, false), (1, true, false), (2, true, false), (3, true, false), (4, false, true)]
    {
        let sim = SimStorage::new();
        let manifest = open_with(&sim, small()).map_err(|e| e.to_string())?;
        for _ in 0..3 {
            record_one(&manifest).map_err(|e| e.to_string())?;
        }
        manifest.commit().map_err(|e| e.to_string())?;
        record_one(&manifest).map_err(|e| e.to_string())?;
        sim.crash_at(sim.calls() + OPENING_CALLS + call);
        if manifest.commit().is_ok() {
            return Err("a commit that was cut off returned".into());
        }
        let image = sim.take_crash().ok_or("no crash")?;
        drop(manifest);
        for (machine, how) in [
            (image.after_kill(), "kill"),
            (image.materialize(0, &CrashOptions::default()), "cut, all lost"),
            (image.materialize(1, &CrashOptions::default()), "cut, all kept"),
        ] {
            let fail = |what: String| Err(format!("cut before call {call}, {how}: {what}"));
            let survives = is_committed && how != "cut, all lost";
            let manifest = open_with(&machine, small()).map_err(|e| e.to_string())?;
            let expected = 3 + u64::from(survives);
            if manifest.committed() != expected {
                return fail(format!("{} records, not {expected}", manifest.committed()));
            }
            let trimmed = manifest.reconciled().trimmed_bytes;
            let tail_is_there = has_tail && how != "cut, all lost" && call > 1;
            if tail_is_there && trimmed == 0 {
                return fail("the tail was not noticed".into());
            }
            record_one(&manifest).map_err(|e| e.to_string())?;
            manifest.close().map_err(|e| e.to_string())?;
            let mut cursor = reader(&machine).cursor().map_err(|e| e.to_string())?;
            let mut count = 0;
            while let Some(placed) = cursor.next_record().map_err(|e| e.to_string())? {
                if placed.ordinal != count {
                    return fail(format!("record {} at {count}", placed.ordinal));
                }
                count += 1;
            }
            if count != expected + 1 {
                return fail(format!("{count} records after one more"));
            }
        }
    }
    Ok(())
}

#[test]
fn crash_on_commit_trims_the_tail_and_appends_nothing_twice() {
    crash_on_commit().unwrap();
}

/// Tier 2 retry: failures are recorded with their key, the next try has the same key,
/// and replay finds the upload pending until the store has it.
#[test]
fn upload_retry() {
    let sim = SimStorage::new();
    let config = ManifestConfig { upload_required: true, ..small() };
    let manifest = open_with(&sim, config.clone()).unwrap();
    let store = FlakyStore::new(1);
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    open_segment(&manifest, 1);
    manifest.rotate().unwrap();
    let key = StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 0 }.key("");
    for failures in 1..=3_u32 {
        let wait = manifest.maintain().unwrap().unwrap();
        assert_eq!(wait.as_millis(), 500 << (failures - 1), "pauses double");
        let pending = manifest.with_index(|index| index.pending_upload(&key).cloned()).unwrap();
        assert_eq!(pending.attempts, failures);
        assert_eq!(pending.failure, Some(ReasonCode::UNAVAILABLE));
        assert_eq!(pending.logical_offset, 0, "the chunk's index");
        let records = manifest.next_record();
        manifest.maintain().unwrap();
        assert_eq!(manifest.next_record(), records, "not before its time");
        sim.clock().advance_ms(wait.as_millis() as u64);
    }
    // A restart finds the upload pending.
    drop(manifest);
    let manifest = open_with(&sim, config).unwrap();
    assert!(manifest.with_index(|index| index.pending_upload(&key).is_some()));
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    store.fails_one_in.store(0, Ordering::Relaxed);
    manifest.maintain().unwrap();
    assert!(manifest.with_index(|index| index.pending_uploads().next().is_none()));
    assert_eq!(manifest.metrics().uploads, 1);
    assert!(store.head(&key).unwrap().is_some());
    assert!(reader(&sim).chunk(0).unwrap().is_uploaded());

    let mut story = Vec::new();
    let mut cursor = reader(&sim).cursor().unwrap();
    while let Some(placed) = cursor.next_record().unwrap() {
        match placed.record.event {
            ManifestEvent::UploadStarted { key: k }
            | ManifestEvent::UploadFailed { key: k, .. }
            | ManifestEvent::UploadDone { key: k, .. } => {
                assert_eq!(k, key);
                assert_eq!(placed.position.chunk_index, 1, "in the next chunk");
                story.push(placed.record.event.name());
            }
            _ => {}
        }
    }
    let failed = ["UploadStarted", "UploadFailed"].repeat(3);
    assert_eq!(story, [&failed[..], &["UploadStarted", "UploadDone"]].concat());
}

/// Snapshot replay: a snapshot, more chunks, and replay that starts at the marker's
/// position; a hydration that was under way is there once.
#[test]
fn snapshot_replay() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, small()).unwrap();
    for segment in 0..30 {
        open_segment(&manifest, segment);
        custom(&manifest, 2_000);
    }
    let hydration = ManifestEvent::HydrationStarted { source_tier: 2 };
    manifest.record(SegmentId::from_u64(3), 0, hydration).unwrap();
    let before = manifest.next_record();
    let snapshot_id = manifest.snapshot().unwrap();
    for segment in 30..60 {
        open_segment(&manifest, segment);
        custom(&manifest, 2_000);
    }
    manifest.commit().unwrap();
    let index = manifest.index();
    drop(manifest);

    let manifest = open_with(&sim, small()).unwrap();
    let replayed = manifest.replayed();
    let snapshot = replayed.snapshot.unwrap();
    assert_eq!((snapshot.snapshot_id, snapshot.next_record), (snapshot_id, before));
    // The marker and what followed.
    assert_eq!(replayed.records, 61);
    assert!(manifest.index() == index, "the same state");
    let hydrating =
        manifest.with_index(|i| i.segments().filter(|s| s.hydration_source.is_some()).count());
    assert_eq!(hydrating, 1);
    let mut cursor = reader(&sim).cursor_at(snapshot.position, None);
    let marker = cursor.next_record().unwrap().unwrap();
    assert_eq!(marker.ordinal, before);
    assert_eq!(
        marker.record.event,
        ManifestEvent::SnapshotMarker {
            chunk_index: snapshot.position.chunk_index,
            chunk_offset: snapshot.position.chunk_offset,
            snapshot_id,
        }
    );
    // Without the snapshot the chunks say the same.
    let layout = ManifestLayout::new(ROOT, STREAM);
    sim.remove(&layout.snapshot_path(snapshot_id)).unwrap();
    let (full, report) = replay(&reader(&sim), sim.clock()).unwrap();
    assert!(report.snapshot.is_none() && full == index);
}

/// Follower catch-up: a second directory that has some chunks gets the others from the
/// store, says which are nowhere, and replays to the same state, deletions included.
#[test]
fn follower_catch_up() {
    let leader = SimStorage::new();
    let config = ManifestConfig { upload_required: true, ..small() };
    let manifest = open_with(&leader, config).unwrap();
    let store_disk: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let store = Arc::new(DirectoryUploader::new(Arc::clone(&store_disk), "/store"));
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    for segment in 0..6 {
        open_segment(&manifest, segment);
        let id = SegmentId::from_u64(segment);
        let key = format!("cold/{segment}");
        let done = ManifestEvent::UploadDone { key: &key, etag: "t" };
        manifest.record(id, 0, done).unwrap();
        if segment % 2 == 0 {
            manifest.record(id, 0, ManifestEvent::Tier2DeleteQueued { key: &key }).unwrap();
        }
        if segment == 4 {
            manifest.record(id, 0, ManifestEvent::Tier2Deleted { key: &key }).unwrap();
        }
        manifest.rotate().unwrap();
        manifest.maintain().unwrap();
    }
    manifest.rotate().unwrap();
    manifest.maintain().unwrap();
    let leader_chunks = reader(&leader).list().unwrap().chunks;
    assert!(leader_chunks.len() >= 6, "{leader_chunks:?}");

    // The follower was given chunks 0, 1 and 4 by other means; 4 arrived damaged.
    let follower = SimStorage::new();
    let layout = ManifestLayout::new(ROOT, STREAM);
    for index in [0, 1, 4] {
        let mut bytes = leader.read_file(layout.chunk_path(index)).unwrap();
        if index == 4 {
            bytes[100] ^= 1;
        }
        follower.write_file(layout.chunk_path(index), &bytes).unwrap();
    }
    // Chunk 2 is not in the store any more, chunk 3 is not what it was.
    let object = |index| {
        std::path::PathBuf::from("/store")
            .join(StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: index }.key(""))
    };
    store_disk.remove(&object(2)).unwrap();
    let chunk_5 = store
        .fetch(&StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 5 }.key(""), u64::MAX)
        .unwrap()
        .unwrap();
    let chunk_3 = store
        .fetch(&StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 3 }.key(""), u64::MAX)
        .unwrap()
        .unwrap();
    let meta = store
        .head(&StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 3 }.key(""))
        .unwrap()
        .unwrap()
        .meta;
    store
        .upload(
            3,
            &StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 3 }.key(""),
            &chunk_5,
            &meta,
        )
        .unwrap();
    let first = restore_chunks(&follower, &layout, &*store, "").unwrap();
    assert_eq!(first.missing, vec![std::ops::Range { start: 2, end: 4 }]);
    assert_eq!(first.refused.len(), 1);
    assert_eq!(first.refused[0].0, 3);
    assert!(first.restored.contains(&4), "a damaged chunk is fetched again");
    let held = layout.lock(&follower).unwrap();
    let refused = restore_chunks(&follower, &layout, &*store, "");
    assert!(matches!(refused, Err(crate::AofError::Locked { .. })), "{refused:?}");
    drop(held);
    let error = replay(&reader(&follower), follower.clock()).unwrap_err();
    assert!(error.to_string().contains("record"), "{error}");

    // Both turn up again.
    let chunk_2 = leader.read_file(layout.chunk_path(2)).unwrap();
    let committed = reader(&leader).chunk(2).unwrap().header().committed_len as usize;
    store
        .upload(
            2,
            &StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 2 }.key(""),
            &chunk_2[..committed],
            &meta,
        )
        .unwrap();
    store
        .upload(
            3,
            &StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 3 }.key(""),
            &chunk_3,
            &meta,
        )
        .unwrap();
    let second = restore_chunks(&follower, &layout, &*store, "").unwrap();
    assert_eq!((second.restored, second.missing), (vec![2, 3], vec![]));
    let storage: Arc<dyn Storage> = Arc::new(follower.clone());
    let report = verify_manifest(&storage, ROOT).unwrap();
    assert!(report.is_healthy(), "{:?}", report.problems);

    let (index, _) = replay(&ManifestReader::new(storage, ROOT, STREAM), follower.clock()).unwrap();
    let state = |index: &crate::manifest::ManifestIndex| {
        let segments: Vec<_> = index.segments().cloned().collect();
        let deletes: Vec<_> = index.pending_deletes().cloned().collect();
        (segments, deletes)
    };
    let (segments, deletes) = manifest.with_index(state);
    assert_eq!(state(&index), (segments, deletes.clone()));
    assert_eq!(deletes.len(), 2, "queued and not yet done: {deletes:?}");
}
