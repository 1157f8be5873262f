//! What the log tells the manifest, step by step on simulated storage.

use std::sync::Arc;

use crate::error::AofError;
use crate::format::SegmentId;
use crate::format::manifest::ManifestEvent;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::{ManifestMode, ManifestReader};
use crate::store::layout::Layout;
use crate::write::AofConfig;
use crate::write::{AppendOptions, Stream};

const ROOT: &str = "/data/log";

fn open(sim: &SimStorage, mode: ManifestMode) -> Arc<Stream> {
    let config = AofConfig { manifest_mode: mode, ..AofConfig::new(ROOT).segment_bytes(64 << 10) };
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    Stream::open(config, storage, Arc::new(sim.clock().clone())).unwrap()
}

/// Appends, with the background's help.
fn append(stream: &Arc<Stream>) {
    while let Err(error) = stream.append_now(b"hello", &AppendOptions::default()) {
        assert!(matches!(error, AofError::WouldBlock(_)), "{error}");
        stream.prepare_step().unwrap();
        stream.finalize_step().unwrap();
    }
}

fn append_and_seal(stream: &Arc<Stream>) {
    append(stream);
    stream.start_seal(false).unwrap();
    while stream.finalize_step().unwrap() {}
}

fn segment_files(sim: &SimStorage) -> Vec<std::path::PathBuf> {
    let dir = Layout::new(ROOT).segments_dir();
    let mut names: Vec<String> = sim.list(&dir).unwrap().into_iter().map(|e| e.name).collect();
    names.retain(|name| name.ends_with(".seg"));
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

fn divergence(stream: &Stream) -> u64 {
    stream.store().manifest_metrics().unwrap().shadow_divergence
}

/// The gauge of a shadow is worth watching only if somebody compares: nobody asks here.
#[test]
fn a_shadow_is_compared_with_the_files_without_being_asked_to() {
    let sim = SimStorage::new();
    let stream = open(&sim, ManifestMode::Shadow);
    for _ in 0..3 {
        append_and_seal(&stream);
    }
    stream.store().maintain_manifest();
    assert_eq!(divergence(&stream), 0);
    sim.remove(&segment_files(&sim)[0]).unwrap();
    append_and_seal(&stream);
    // It is due some time; then an idle stream comes to rest.
    let mut rounds = 0;
    while let Some(wait) = stream.store().maintain_manifest() {
        sim.clock().advance_ms(wait.as_millis() as u64 + 1);
        rounds += 1;
        assert!(rounds < 20, "still busy");
    }
    assert_eq!(divergence(&stream), 1);
}

/// What a shadow found on the disk when it was switched on is compared at once.
#[test]
fn switching_to_shadow_compares_and_enabled_does_not() {
    let sim = SimStorage::new();
    let stream = open(&sim, ManifestMode::Enabled);
    for _ in 0..3 {
        append_and_seal(&stream);
    }
    sim.remove(&segment_files(&sim)[0]).unwrap();
    sim.clock().advance_ms(60_000);
    stream.store().maintain_manifest();
    assert_eq!(divergence(&stream), 0, "nobody asked");
    stream.store().set_manifest_mode(ManifestMode::Shadow).unwrap();
    stream.store().maintain_manifest();
    assert_eq!(divergence(&stream), 1);
}

/// A full disk keeps the records in memory. Nothing more is recorded, so nobody is notified:
/// the background has to come again by itself.
#[test]
fn a_manifest_that_met_a_full_disk_is_tended_again() {
    let sim = SimStorage::new();
    let stream = open(&sim, ManifestMode::Enabled);
    sim.set_capacity_len(Some(sim.used_len()));
    stream.store().record_event(None, 1, b"waits for space").unwrap();
    for _ in 0..5 {
        let wait = stream.store().maintain_manifest().expect("a record waits to be committed");
        sim.clock().advance_ms(wait.as_millis() as u64 + 1);
    }
    let committed = || stream.store().manifest_metrics().unwrap().committed_records;
    assert_eq!((committed(), stream.store().manifest_failures()), (0, 0));
    sim.set_capacity_len(None);
    while committed() == 0 {
        let wait = stream.store().maintain_manifest();
        if committed() == 0 {
            let wait = wait.expect("a record waits to be committed");
            sim.clock().advance_ms(wait.as_millis() as u64 + 1);
        }
    }
}

#[test]
fn a_mode_that_cannot_be_had_leaves_the_one_before() {
    let sim = SimStorage::new();
    let stream = open(&sim, ManifestMode::Enabled);
    append_and_seal(&stream);
    stream.store().set_manifest_mode(ManifestMode::Disabled).unwrap();
    let reader =
        ManifestReader::new(Arc::new(sim.clone()), ROOT, stream.store().identity().stream_id);
    let chunk = reader.layout().chunk_path(0);
    sim.flip_bit(&chunk, 70 * 8).unwrap();
    let refused = stream.store().set_manifest_mode(ManifestMode::Enabled);
    assert!(matches!(refused, Err(AofError::Corrupt(_))), "{refused:?}");
    assert_eq!(stream.store().manifest_mode(), ManifestMode::Disabled);
    sim.flip_bit(&chunk, 70 * 8).unwrap();
    stream.store().set_manifest_mode(ManifestMode::Enabled).unwrap();
    assert_eq!(stream.store().manifest_mode(), ManifestMode::Enabled);
}

/// The segment that an event is about by default is the one that is being written, not
/// one that does not exist yet.
#[test]
fn an_event_is_about_the_newest_segment() {
    let sim = SimStorage::new();
    let stream = open(&sim, ManifestMode::Enabled);
    append_and_seal(&stream);
    append_and_seal(&stream);
    append(&stream);
    stream.flush_until(stream.appended().position(), None).unwrap();
    let active = stream.store().table().last().unwrap().meta.segment_id;
    assert_eq!(active, SegmentId::from_u64(2));
    stream.store().record_event(None, 7, b"now").unwrap();
    stream.store().commit_manifest().unwrap();
    let reader =
        ManifestReader::new(Arc::new(sim.clone()), ROOT, stream.store().identity().stream_id);
    let mut cursor = reader.cursor().unwrap();
    let mut found = None;
    while let Some(placed) = cursor.next_record().unwrap() {
        if matches!(placed.record.event, ManifestEvent::CustomEvent { .. }) {
            found = Some(placed.record.segment_id);
        }
    }
    assert_eq!(found, Some(active));
    let beyond = SegmentId::from_u64(u64::from(u32::MAX) + 1);
    let refused = stream.store().record_event(Some(beyond), 7, b"nowhere");
    assert!(matches!(refused, Err(AofError::InvalidRecord { .. })), "{refused:?}");
}
