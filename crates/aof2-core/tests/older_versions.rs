//! Logs that version 0.1 made, when the id of a log followed from its name and nobody
//! claimed anything: `tests/data/0.1`. They keep their ids and go on.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aof2_core::object::ObjectMeta;
use aof2_core::object::sim::SimBucket;
use aof2_core::*;
use support::bucket::*;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/0.1").join(name)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A copy of a log, to be changed.
fn log_of(name: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    copy(&data(name).join("events"), &root);
    (dir, root)
}

/// The bucket that belongs to the archived log.
fn bucket() -> SimBucket {
    let bucket = SimBucket::new();
    let root = data("archived/bucket");
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let key = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
            let bytes = bytes::Bytes::from(std::fs::read(&path).unwrap());
            let meta = ObjectMeta { crc64nvme: format::crc64(&bytes), ..Default::default() };
            bucket.insert(&key, bytes, meta);
        }
    }
    bucket
}

fn payloads(scan: Scan) -> Vec<Vec<u8>> {
    scan.map(|record| record.unwrap().payload.to_vec()).collect()
}

fn expected(end: u64) -> Vec<Vec<u8>> {
    (0..end).map(payload).collect()
}

#[test]
fn a_plain_log_is_read_verified_and_goes_on() {
    for name in ["full", "compact"] {
        let (_dir, root) = log_of(name);
        let reader = AofReader::open(&root).unwrap();
        assert_eq!(reader.stream_id(), StreamId::legacy_of_name("events"), "{name}");
        assert_eq!(payloads(reader.scan(ScanOptions::default()).unwrap()), expected(50), "{name}");
        assert!(verify(&root).unwrap().is_healthy(), "{name}");
        let log = Aof::open(AofConfig::new(&root)).unwrap();
        assert_eq!(log.stream_id(), StreamId::legacy_of_name("events"), "{name}");
        log.append(&payload(50)).unwrap();
        log.flush().unwrap();
        log.close().unwrap();
        assert_eq!(payloads(reader.scan(ScanOptions::default()).unwrap()), expected(51), "{name}");
    }
}

#[test]
fn an_archived_log_gets_its_name_and_a_claim_and_goes_on() {
    let ((_dir, root), bucket) = (log_of("archived"), bucket());
    let manager = manager(&bucket, tiers());
    let log = manager.open(AofConfig { recover: false, ..config(&root) }).unwrap();
    assert_eq!(log.stream_id(), StreamId::legacy_of_name("events"));
    assert_eq!(payloads(log.scan(ScanOptions::default()).unwrap()), expected(70));
    for i in 70..100 {
        log.append(&payload(i)).unwrap();
    }
    archive(&log);
    log.close().unwrap();
    let keys: Vec<String> = bucket.objects().into_keys().collect();
    assert!(keys.iter().any(|key| key == "some/prefix/names/events"), "{keys:?}");
    assert!(keys.iter().any(|key| key.ends_with("/writer/00000001")), "{keys:?}");
    let reader = AofReader::open_bucket_on(Arc::new(bucket), &cold(), "events").unwrap();
    assert_eq!(payloads(reader.scan(ScanOptions::default()).unwrap()), expected(100));
}

#[test]
fn a_bucket_of_before_names_is_read_and_recovered_by_name() {
    let bucket = bucket();
    let reader = AofReader::open_bucket_on(Arc::new(bucket.clone()), &cold(), "events").unwrap();
    assert_eq!(payloads(reader.scan(ScanOptions::default()).unwrap()), expected(60));
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let manager = manager(&bucket, tiers());
    let refused = manager.open(AofConfig { recover: false, ..config(&root) });
    assert!(matches!(refused, Err(AofError::NameTaken { .. })), "{refused:?}");
    assert!(!root.exists());
    let log = manager.open(config(&root)).unwrap();
    assert_eq!(log.stream_id(), StreamId::legacy_of_name("events"));
    assert_eq!(payloads(log.scan(ScanOptions::default()).unwrap()), expected(60));
}

/// Records of the compact format carry no id. Where nothing else tells it, opening says so,
/// and the explicit repair gives the log a new one; the name never tells.
#[test]
fn a_log_that_nothing_identifies_is_given_an_id_by_repair_alone() {
    let (_dir, root) = log_of("compact");
    std::fs::remove_file(root.join("stream")).unwrap();
    // The watermark file still tells.
    let log = Aof::open(AofConfig::new(&root)).unwrap();
    assert_eq!(log.stream_id(), StreamId::legacy_of_name("events"));
    log.close().unwrap();
    std::fs::remove_file(root.join("stream")).unwrap();
    std::fs::remove_file(root.join("watermark")).unwrap();
    for refused in [Aof::open(AofConfig::new(&root)).map(drop), AofReader::open(&root).map(drop)] {
        let Err(AofError::NotALog { reason, .. }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("repair gives it a new id"), "{reason}");
    }
    repair(&root).unwrap();
    let log = Aof::open(AofConfig::new(&root)).unwrap();
    assert_ne!(log.stream_id(), StreamId::legacy_of_name("events"));
    assert_eq!(payloads(log.scan(ScanOptions::default()).unwrap()), expected(50));
}

#[test]
fn new_logs_of_one_name_have_ids_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let open =
        |name: &str| Aof::open(AofConfig::new(dir.path().join(name).join("events"))).unwrap();
    let (one, other) = (open("a"), open("b"));
    assert_eq!((one.name(), other.name()), ("events", "events"));
    assert_ne!(one.stream_id(), other.stream_id());
}
