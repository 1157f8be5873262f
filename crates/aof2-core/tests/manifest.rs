//! The log records what happens to its segments, as users see it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aof2_core::format::manifest::ManifestEvent;
use aof2_core::io::{DirEntry, File, LockError, LockGuard, OpenMode, OsStorage, Storage};
use aof2_core::manifest::{ManifestMode, ManifestReader, verify_manifest};
use aof2_core::*;

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

fn config(path: &Path, mode: ManifestMode) -> AofConfig {
    AofConfig { manifest_mode: mode, ..AofConfig::new(path).segment_bytes(64 << 10) }
}

/// The committed records of a manifest, by segment and name.
fn records(path: &Path) -> Vec<(u64, &'static str)> {
    let stream = AofReader::open(path).unwrap().stream_id();
    let reader = ManifestReader::new(Arc::new(OsStorage), path, stream);
    let mut cursor = reader.cursor().unwrap();
    let mut records = Vec::new();
    while let Some(placed) = cursor.next_record().unwrap() {
        records.push((placed.record.segment_id.as_u64(), placed.record.event.name()));
    }
    records
}

fn chunk_files(path: &Path) -> Vec<PathBuf> {
    let dir = fs::read_dir(path.join("manifest")).unwrap().next().unwrap().unwrap().path();
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "mlog"));
    files.sort();
    files
}

#[test]
fn a_log_without_a_manifest_writes_none() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Disabled))?;
    log.append(b"hello")?;
    log.seal()?;
    assert_eq!(log.manifest_mode(), ManifestMode::Disabled);
    let asked = log.commit_manifest();
    assert!(matches!(asked, Err(AofError::InvalidConfig { field: "manifest_mode", .. })));
    log.close()?;
    assert!(!path.join("manifest").exists());
    Ok(())
}

#[test]
fn opening_sealing_and_letting_go_are_recorded_in_order() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(AofConfig { ext_id: 9, ..config(&path, ManifestMode::Enabled) })?;
    for text in ["first", "second"] {
        log.append(text.as_bytes())?;
        log.seal()?;
    }
    log.apply_retention(&RetentionPolicy { before_offset: Some(1), ..Default::default() })?;
    log.record_event(None, 7, b"mine")?;
    assert_eq!(log.compare_manifest()?, []);
    let index = log.manifest_index()?;
    let sealed = index.get(SegmentId::from_u64(1)).expect("recorded");
    let info = log.segments().into_iter().find(|s| s.segment_id == 1).expect("there");
    assert_eq!(sealed.durable_bytes, Some(info.used_bytes));
    assert_eq!((sealed.ext_id, sealed.flush_failure), (Some(9), Some(false)));
    assert!(index.get(SegmentId::from_u64(0)).is_none_or(|s| !s.hot));
    log.close()?;
    let records = records(&path);
    let of = |id: u64| -> Vec<&str> {
        records.iter().filter(|r| r.0 == id && r.1 != "CustomEvent").map(|r| r.1).collect()
    };
    assert_eq!(of(0), ["SegmentOpened", "SealSegment", "LocalEvicted"], "{records:?}");
    assert_eq!(of(1), ["SegmentOpened", "SealSegment"], "{records:?}");
    assert_eq!(records.iter().filter(|r| r.1 == "CustomEvent").count(), 1);
    Ok(())
}

#[test]
fn a_manifest_switched_on_later_catches_up_with_what_happened_without_it() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    log.append(b"recorded")?;
    log.seal()?;
    log.set_manifest_mode(ManifestMode::Disabled)?;
    for _ in 0..3 {
        log.append(b"not recorded")?;
        log.seal()?;
    }
    log.apply_retention(&RetentionPolicy { before_offset: Some(1), ..Default::default() })?;
    log.set_manifest_mode(ManifestMode::Shadow)?;
    assert_eq!(log.compare_manifest()?, []);
    assert_eq!(log.manifest_index()?.segments().filter(|s| s.sealed_at_ms.is_some()).count(), 3);
    assert_eq!(log.metrics().manifest.map(|m| m.shadow_divergence), Some(0));
    Ok(())
}

#[test]
fn a_repaired_segment_is_recorded_anew() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    for _ in 0..2 {
        log.append(&[1; 500])?;
        log.append(&[2; 500])?;
        log.seal()?;
    }
    let file = log.segments()[0].path.clone();
    log.close()?;
    let mut bytes = fs::read(&file)?;
    bytes[100] ^= 1;
    fs::write(&file, bytes)?;
    repair(&path)?;
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    assert_eq!(log.compare_manifest()?, []);
    Ok(())
}

#[test]
fn files_that_vanish_are_a_divergence() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Shadow))?;
    for _ in 0..3 {
        log.append(b"x")?;
        log.seal()?;
    }
    fs::remove_file(&log.segments()[0].path)?;
    let found = log.compare_manifest()?;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].segment_id, SegmentId::from_u64(0));
    assert_eq!(log.metrics().manifest.map(|m| m.shadow_divergence), Some(1));
    assert!(log.metrics().to_prometheus().contains("aof2_manifest_shadow_divergence"));
    Ok(())
}

#[test]
fn a_damaged_manifest_stops_an_enabled_log_and_not_a_shadowed_one() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    log.append(b"hello")?;
    log.seal()?;
    log.close()?;
    let file = chunk_files(&path).pop().expect("a chunk");
    let mut bytes = fs::read(&file)?;
    bytes[64 + 40] ^= 1;
    fs::write(&file, bytes)?;
    let refused = Aof::open(config(&path, ManifestMode::Enabled));
    match &refused {
        Err(AofError::Corrupt(damage)) => assert_eq!(damage.path, file),
        other => panic!("{other:?}"),
    }
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    assert!(!verify_manifest(&storage, &path)?.is_healthy());
    let log = Aof::open(config(&path, ManifestMode::Shadow))?;
    assert_eq!(log.metrics().manifest_failures, 1);
    log.append(b"goes on")?;
    log.close()?;
    // Moved away, it starts anew.
    fs::remove_dir_all(path.join("manifest"))?;
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    assert_eq!(log.compare_manifest()?, []);
    Ok(())
}

/// Storage of somebody who looks at a log while its writer is at work: whenever the
/// manifest is about to be read, one more segment has been sealed and recorded.
#[derive(Debug)]
struct BusyLog(Aof);

impl Storage for BusyLog {
    fn share(&self) -> Arc<dyn Storage> {
        Arc::new(BusyLog(self.0.clone()))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsStorage.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        OsStorage.list(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsStorage.exists(path)
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if path.extension().is_some_and(|e| e == "mlog") {
            self.0.seal().unwrap();
            self.0.append(b"goes on").unwrap();
            self.0.flush().unwrap();
            self.0.commit_manifest().unwrap();
        }
        OsStorage.open(path, mode)
    }
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        OsStorage.create_new(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsStorage.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        OsStorage.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        OsStorage.remove_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        OsStorage.sync_dir(path)
    }
    fn lock(&self, path: &Path) -> std::result::Result<Box<dyn LockGuard>, LockError> {
        OsStorage.lock(path)
    }
    fn random_u64(&self) -> io::Result<u64> {
        OsStorage.random_u64()
    }
}

#[test]
fn a_log_that_seals_while_it_is_compared_is_not_taken_for_damaged() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    log.append(b"hello")?;
    log.flush()?;
    log.commit_manifest()?;
    let storage: Arc<dyn Storage> = Arc::new(BusyLog(log));
    let found = compare_manifest(&storage, &path)?;
    let damage: Vec<_> = found.iter().filter(|found| found.is_damage).collect();
    assert!(damage.is_empty(), "{damage:?}");
    Ok(())
}

/// Nobody asks for a commit: the background does it in its own time.
#[test]
fn records_are_committed_without_being_asked_for() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    log.append(b"hello")?;
    log.seal()?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !records(&path).contains(&(0, "SealSegment")) {
        assert!(Instant::now() < deadline, "{:?}", records(&path));
        std::thread::yield_now();
    }
    Ok(())
}

#[test]
fn a_manifest_of_many_events_stays_small() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let mut config = config(&path, ManifestMode::Enabled);
    config.manifest.chunk_bytes = 16 << 10;
    let log = Aof::open(config)?;
    for _ in 0..200 {
        for _ in 0..20 {
            log.record_event(None, 1, &[7; 1_000])?;
        }
        log.commit_manifest()?;
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    // 4 MB were recorded; what stays is what the two newest snapshots do not cover.
    while chunk_files(&path).len() > 60 {
        assert!(Instant::now() < deadline, "{}", chunk_files(&path).len());
        log.record_event(None, 1, b"goes on")?;
        log.commit_manifest()?;
    }
    Ok(())
}

#[test]
fn what_is_recorded_after_a_kill_is_what_the_files_say() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    for _ in 0..3 {
        log.append(b"x")?;
        log.seal()?;
    }
    log.append(b"unsealed")?;
    log.flush()?;
    // As a killed process leaves it: copied while it is open.
    let copy = dir.path().join("copy").join("events");
    copy_dir(&path, &copy)?;
    drop(log);
    let log = Aof::open(config(&copy, ManifestMode::Enabled))?;
    assert_eq!(log.compare_manifest()?, []);
    assert_eq!(log.watermarks().durable, 4);
    Ok(())
}

fn copy_dir(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_dir(&entry.path(), &target)?,
            // Spares come and go while the log is open.
            false => match fs::copy(entry.path(), target) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
        }
    }
    Ok(())
}

#[test]
fn an_event_that_is_too_long_is_refused_and_nothing_is_lost() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    let refused = log.record_event(None, 1, &vec![0; 1 << 20]);
    assert!(matches!(refused, Err(AofError::InvalidRecord { .. })), "{refused:?}");
    let ordinal = log.record_event(Some(SegmentId::from_u64(0)), 1, b"short")?;
    log.commit_manifest()?;
    log.close()?;
    assert!(records(&path).len() as u64 > ordinal);
    Ok(())
}

#[test]
fn events_come_back_as_they_were_given() -> TestResult {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("events");
    let log = Aof::open(config(&path, ManifestMode::Enabled))?;
    log.record_event(Some(SegmentId::from_u64(0)), 42, b"\0\xFFblob")?;
    log.snapshot_manifest()?;
    log.close()?;
    let stream = AofReader::open(&path)?.stream_id();
    let reader = ManifestReader::new(Arc::new(OsStorage), &path, stream);
    let mut cursor = reader.cursor()?;
    let mut seen = Vec::new();
    while let Some(placed) = cursor.next_record()? {
        match placed.record.event {
            ManifestEvent::CustomEvent { schema_id, blob } => {
                seen.push((schema_id, blob.to_vec()));
            }
            ManifestEvent::SnapshotMarker { snapshot_id, .. } => {
                seen.push((snapshot_id as u32, b"snapshot".to_vec()));
            }
            _ => {}
        }
    }
    assert_eq!(seen.first(), Some(&(42, b"\0\xFFblob".to_vec())));
    assert_eq!(seen.len(), 2);
    Ok(())
}
