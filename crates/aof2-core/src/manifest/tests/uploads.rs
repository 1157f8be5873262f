//! Chunks on their way to the store and off the disk.

use std::sync::Arc;

use super::driver::{FlakyStore, ROOT, STREAM, open_with, reader, record_one};
use crate::format::SegmentId;
use crate::format::manifest::{ManifestEvent, StoredChunkName};
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::{
    ChunkUploader, DirectoryUploader, Manifest, ManifestConfig, ManifestProblemKind,
    verify_manifest_with,
};

fn tiered() -> ManifestConfig {
    ManifestConfig {
        chunk_bytes: 16 << 10,
        snapshot_every_chunks: 0,
        snapshots_kept: 1,
        ..ManifestConfig::default()
    }
}

fn seal_one(manifest: &Manifest) {
    record_one(manifest).unwrap();
    manifest.rotate().unwrap();
}

fn chunks(sim: &SimStorage) -> Vec<u64> {
    reader(sim).list().unwrap().chunks
}

/// Whatever the flag says, a chunk that the store does not have is not deleted.
pub(super) fn deleted_chunks_are_in_the_store(fails_one_in: u64) -> Result<(), String> {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, tiered()).map_err(|e| e.to_string())?;
    let store = FlakyStore::new(fails_one_in);
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    for _ in 0..8 {
        seal_one(&manifest);
        let _ = manifest.snapshot().map_err(|e| e.to_string())?;
        for _ in 0..4 {
            manifest.maintain().map_err(|e| e.to_string())?;
            sim.clock().advance_ms(60_000);
            let here = chunks(&sim);
            let marked = |index| reader(&sim).chunk(index).unwrap().is_uploaded();
            let mut gone_or_marked: Vec<u64> = (0..here[0]).collect();
            gone_or_marked.extend(here.into_iter().filter(|&index| marked(index)));
            for index in gone_or_marked {
                let key =
                    StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: index }.key("");
                if store.store.head(&key).map_err(|e| e.to_string())?.is_none() {
                    return Err(format!("chunk {index} is marked or gone, and not in the store"));
                }
            }
        }
    }
    if fails_one_in != 1 && chunks(&sim)[0] == 0 {
        return Err("nothing was ever deleted".into());
    }
    Ok(())
}

#[test]
fn nothing_is_deleted_that_the_store_does_not_have() {
    deleted_chunks_are_in_the_store(0).unwrap();
    deleted_chunks_are_in_the_store(3).unwrap();
    deleted_chunks_are_in_the_store(1).unwrap();
}

/// A mark that a flipped bit made is not believed.
pub(super) fn a_false_mark_is_not_believed() -> Result<(), String> {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, tiered()).map_err(|e| e.to_string())?;
    for _ in 0..4 {
        seal_one(&manifest);
    }
    drop(manifest);
    let path = reader(&sim).layout().chunk_path(0);
    sim.flip_bit(path, 56 * 8 + 1).map_err(|e| e.to_string())?;
    let manifest = open_with(&sim, tiered()).map_err(|e| e.to_string())?;
    let store = FlakyStore::new(0);
    manifest.snapshot().map_err(|e| e.to_string())?;
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    for _ in 0..3 {
        manifest.maintain().map_err(|e| e.to_string())?;
        let stored = store
            .head(&StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 0 }.key(""))
            .map_err(|e| e.to_string())?;
        if chunks(&sim)[0] > 0 && stored.is_none() {
            return Err("a chunk that was never uploaded is gone".into());
        }
    }
    if chunks(&sim)[0] == 0 {
        return Err("it was never uploaded".into());
    }
    Ok(())
}

#[test]
fn a_mark_alone_deletes_nothing() {
    a_false_mark_is_not_believed().unwrap();
}

#[test]
fn without_a_store_nothing_is_deleted_where_uploads_are_required() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, tiered()).unwrap();
    for _ in 0..6 {
        seal_one(&manifest);
        manifest.snapshot().unwrap();
        manifest.maintain().unwrap();
    }
    assert_eq!(chunks(&sim)[0], 0);
}

#[test]
fn the_two_latest_sealed_chunks_and_the_snapshots_chunk_stay() {
    let sim = SimStorage::new();
    let config = ManifestConfig {
        chunk_bytes: 16 << 10,
        snapshot_every_chunks: 0,
        snapshots_kept: 1,
        ..ManifestConfig::local()
    };
    let manifest = open_with(&sim, config.clone()).unwrap();
    for _ in 0..6 {
        seal_one(&manifest);
    }
    manifest.maintain().unwrap();
    assert_eq!(chunks(&sim), [0, 1, 2, 3, 4, 5], "no snapshot covers them");
    manifest.snapshot().unwrap();
    manifest.maintain().unwrap();
    // The marker of the snapshot stands in chunk 6; its position is the end of chunk 5.
    assert_eq!(chunks(&sim), [4, 5, 6]);
    for _ in 0..3 {
        seal_one(&manifest);
    }
    manifest.maintain().unwrap();
    assert_eq!(chunks(&sim), [5, 6, 7, 8], "everything from the snapshot on");
    let index = manifest.index();
    drop(manifest);
    assert!(open_with(&sim, config).unwrap().index() == index);
}

#[test]
fn with_two_snapshots_kept_the_older_ones_chunks_stay_and_replay_can_fall_back() {
    let sim = SimStorage::new();
    let config = ManifestConfig {
        chunk_bytes: 16 << 10,
        snapshot_every_chunks: 2,
        snapshots_kept: 2,
        ..ManifestConfig::local()
    };
    let manifest = open_with(&sim, config.clone()).unwrap();
    for _ in 0..20 {
        seal_one(&manifest);
        manifest.maintain().unwrap();
    }
    assert!(chunks(&sim)[0] > 8, "{:?}", chunks(&sim));
    let index = manifest.index();
    drop(manifest);
    let snapshots = reader(&sim).list().unwrap().snapshots;
    assert_eq!(snapshots.len(), 2);
    let newest = reader(&sim).layout().snapshot_path(snapshots[1]);
    sim.flip_bit(newest, 300).unwrap();
    let manifest = open_with(&sim, config).unwrap();
    assert!(manifest.index() == index);
    assert_eq!(manifest.replayed().rejected.len(), 1);
    assert_eq!(manifest.metrics().crc_error_count, 1, "damage met");
}

/// A sealed chunk that cannot be read must not keep the others from the store, nor
/// records from being committed in time.
#[test]
fn a_damaged_chunk_waits_alone() {
    let sim = SimStorage::new();
    let config = ManifestConfig { commit_ms: 20, rotation_ms: 0, ..tiered() };
    let manifest = open_with(&sim, config).unwrap();
    for _ in 0..4 {
        seal_one(&manifest);
    }
    let damaged = reader(&sim).layout().chunk_path(0);
    sim.flip_bit(&damaged, 70 * 8).unwrap();
    let store = FlakyStore::new(0);
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    manifest.maintain().unwrap();
    let is_stored = |index| {
        store
            .head(&StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: index }.key(""))
            .unwrap()
            .is_some()
    };
    assert_eq!([0, 1, 2, 3].map(is_stored), [false, true, true, true]);
    record_one(&manifest).unwrap();
    let ordinal = manifest.next_record() - 1;
    let wait = manifest.maintain().unwrap().unwrap();
    assert_eq!(wait.as_millis(), 20);
    sim.clock().advance_ms(20);
    manifest.maintain().unwrap();
    assert!(manifest.committed() > ordinal, "committed in time");
    manifest.snapshot().unwrap();
    manifest.maintain().unwrap();
    assert_eq!(chunks(&sim)[0], 0, "it is not in the store, so it stays");
    let metrics = manifest.metrics();
    assert!(metrics.crc_error_count > 0 && metrics.upload_failures > 0, "{metrics:?}");
    // It can be read again, as after a restore.
    sim.flip_bit(&damaged, 70 * 8).unwrap();
    let wait = manifest.maintain().unwrap().unwrap();
    sim.clock().advance_ms(wait.as_millis() as u64);
    manifest.maintain().unwrap();
    assert!(is_stored(0));
}

#[test]
fn a_snapshot_is_taken_once_for_so_many_chunks() {
    let sim = SimStorage::new();
    for every in 1..4 {
        let config = ManifestConfig {
            chunk_bytes: 16 << 10,
            snapshot_every_chunks: every,
            ..ManifestConfig::local()
        };
        let manifest = open_with(&sim, config).unwrap();
        manifest.snapshot().unwrap();
        let before = manifest.metrics().snapshots;
        for _ in 0..every * 3 {
            seal_one(&manifest);
            manifest.maintain().unwrap();
            manifest.maintain().unwrap();
        }
        assert_eq!(manifest.metrics().snapshots - before, 3, "every {every}");
        manifest.close().unwrap();
    }
}

/// Notes about uploads must not make chunks that make notes about uploads.
#[test]
fn an_idle_stream_comes_to_rest() {
    let sim = SimStorage::new();
    let config = ManifestConfig { snapshot_every_chunks: 1, ..tiered() };
    let manifest = open_with(&sim, config).unwrap();
    let store = FlakyStore::new(0);
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    record_one(&manifest).unwrap();
    let mut rounds = 0;
    while let Some(wait) = manifest.maintain().unwrap() {
        sim.clock().advance_ms(wait.as_millis() as u64 + 1);
        rounds += 1;
        assert!(rounds < 20, "still busy, {} records", manifest.next_record());
    }
    let records = manifest.next_record();
    for _ in 0..5 {
        sim.clock().advance_ms(100_000);
        assert_eq!(manifest.maintain().unwrap(), None);
    }
    assert_eq!(manifest.next_record(), records);
    assert!(
        store
            .head(&StoredChunkName { stream_id: STREAM, lineage: 0, chunk_index: 0 }.key(""))
            .unwrap()
            .is_some()
    );
}

#[test]
fn timers_commit_and_seal_and_never_an_empty_chunk() {
    let sim = SimStorage::new();
    let config = ManifestConfig { commit_ms: 20, rotation_ms: 250, ..tiered() };
    let manifest = open_with(&sim, config).unwrap();
    let at = || sim.clock().peek_ns() / 1_000_000;
    assert_eq!(manifest.maintain().unwrap(), None, "nothing to do");
    record_one(&manifest).unwrap();
    let recorded_at = at();
    let wait = manifest.maintain().unwrap().unwrap();
    assert_eq!(wait.as_millis(), 20);
    sim.clock().advance_ms(19);
    manifest.maintain().unwrap();
    assert_eq!(manifest.committed(), 0, "not yet");
    sim.clock().advance_ms(1);
    let wait = manifest.maintain().unwrap().unwrap();
    assert_eq!((manifest.committed(), at()), (1, recorded_at + 20));
    assert_eq!(wait.as_millis(), 250, "from the last commit on");
    sim.clock().advance_ms(249);
    manifest.maintain().unwrap();
    assert!(!reader(&sim).chunk(0).unwrap().is_sealed());
    sim.clock().advance_ms(1);
    assert_eq!(manifest.maintain().unwrap(), None);
    assert!(reader(&sim).chunk(0).unwrap().is_sealed());
    for _ in 0..5 {
        sim.clock().advance_ms(1_000);
        manifest.maintain().unwrap();
        manifest.rotate().unwrap();
    }
    assert_eq!(chunks(&sim), [0], "an empty chunk is never made");
}

#[test]
fn much_waiting_notifies_and_commits_at_once() {
    let sim = SimStorage::new();
    let config = ManifestConfig { commit_bytes: 4 << 10, ..tiered() };
    let manifest = open_with(&sim, config).unwrap();
    let notified = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = Arc::clone(&notified);
    manifest.set_notify(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let blob = [1; 2_000];
    let event = ManifestEvent::CustomEvent { schema_id: 0, blob: &blob };
    let mut counts = Vec::new();
    for _ in 0..4 {
        manifest.record(SegmentId::from_u64(1), 0, event).unwrap();
        counts.push(notified.load(std::sync::atomic::Ordering::SeqCst));
    }
    assert_eq!(counts, [1, 1, 2, 2], "the first, and the one that makes it much");
    manifest.maintain().unwrap();
    assert_eq!(manifest.committed(), 4);
}

#[test]
fn keys_that_leave_the_directory_are_refused() {
    let disk = SimStorage::new();
    let store = DirectoryUploader::new(Arc::new(disk.clone()), "/store");
    let meta = crate::manifest::ChunkMeta {
        chunk_crc64: 1,
        base_record: 2,
        record_count: 3,
        snapshot_id: 4,
    };
    for key in ["../x", "a/../../x", "/etc/x", "", "a//b", ".", "a/./b", "a\\b", "a\0b"] {
        assert!(store.upload(0, key, b"x", &meta).is_err(), "{key:?}");
        assert!(store.fetch(key, 10).is_err() && store.head(key).is_err(), "{key:?}");
    }
    assert!(disk.files().is_empty());
    store.upload(0, "p/a.mlog", b"bytes", &meta).unwrap();
    assert_eq!(store.list("p/").unwrap(), ["p/a.mlog"]);
    assert_eq!(store.list("q/").unwrap(), [""; 0]);
    assert_eq!(store.fetch("p/a.mlog", 5).unwrap().unwrap(), b"bytes");
    assert!(store.fetch("p/a.mlog", 4).is_err(), "longer than asked for");
    assert_eq!(store.fetch("p/b.mlog", 4).unwrap(), None);
    assert_eq!(store.head("p/a.mlog").unwrap().unwrap().meta, meta);
}

#[test]
fn verifying_asks_the_store_for_what_is_marked() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, tiered()).unwrap();
    let store = FlakyStore::new(0);
    manifest.set_uploader(Arc::clone(&store) as Arc<dyn ChunkUploader>);
    seal_one(&manifest);
    manifest.maintain().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let check =
        |store: &FlakyStore| verify_manifest_with(&storage, ROOT, Some((store, ""))).unwrap();
    assert!(check(&store).problems.is_empty());
    let empty = FlakyStore::new(0);
    let report = check(&empty);
    assert!(report.is_healthy());
    assert_eq!(report.problems[0].kind, ManifestProblemKind::NotStored);
    assert_eq!(report.problems[0].chunk_index, Some(0));
}
