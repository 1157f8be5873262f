//! Logs that are archived in a model of a bucket.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aof2_core::io::{OsStorage, SystemClock};
use aof2_core::object::ColdConfig;
use aof2_core::object::sim::SimBucket;
use aof2_core::*;

use super::PATIENCE;

pub const SEGMENT: u64 = 64 << 10;

pub fn cold() -> ColdConfig {
    ColdConfig {
        backoff_ms: 1,
        backoff_ms_max: 5,
        probe_ms: 5,
        ..ColdConfig::new("s3://bucket/some/prefix")
    }
}

pub fn tiers() -> TierConfig {
    TierConfig {
        hot_bytes: 64 * SEGMENT,
        compression_level: 1,
        frame_bytes: 8 << 10,
        cold: Some(cold()),
        cold_delete_after_ms: 0,
        retry_ms: 1,
        retry_ms_max: 20,
        ..TierConfig::default()
    }
}

pub fn manager(bucket: &SimBucket, tiers: TierConfig) -> AofManager {
    let config = ManagerConfig { tiers: Some(tiers), ..ManagerConfig::for_one_stream() };
    let bucket = Arc::new(bucket.clone());
    AofManager::on_store(config, Arc::new(OsStorage), Arc::new(SystemClock), bucket).unwrap()
}

/// A log that comes back if only the bucket has it.
pub fn config(root: &Path) -> AofConfig {
    AofConfig { preallocate_segments: 0, ..AofConfig::new(root).segment_bytes(SEGMENT).recover() }
}

/// A log without a bucket.
pub fn local_config(root: &Path) -> AofConfig {
    AofConfig { recover: false, ..config(root) }
}

/// The id of the only stream of a bucket.
pub fn stream_id(bucket: &SimBucket) -> StreamId {
    let objects = bucket.objects();
    let key = objects.keys().find_map(|key| key.strip_suffix("/stream")).unwrap();
    let (_, digits) = key.rsplit_once('/').unwrap();
    StreamId::from_u64(u64::from_str_radix(digits, 16).unwrap())
}

pub fn payload(i: u64) -> Vec<u8> {
    (0..400 + i % 700).map(|j| (i.wrapping_mul(2654435761) >> (j % 24)) as u8).collect()
}

/// Appends these records; the timestamp of record `i` is `1000 + i`.
pub fn append(log: &Aof, records: Range<u64>) {
    append_payloads(log, records, payload);
}

/// The same with other payloads.
pub fn append_payloads(log: &Aof, records: Range<u64>, payload: fn(u64) -> Vec<u8>) {
    for i in records {
        let options = AppendOptions { timestamp_ms: Some(1_000 + i), ..Default::default() };
        let appended = log.append_record_with_timeout(&payload(i), &options, PATIENCE).unwrap();
        assert_eq!(appended.offset, i);
    }
}

/// Seals, and waits until everything is archived.
pub fn archive(log: &Aof) {
    log.seal().unwrap();
    let end = log.watermarks().appended;
    let archived = log.wait(Level::Archived, end, Some(PATIENCE)).unwrap();
    assert!(archived, "{:?}", log.tiers().unwrap());
}

/// A bucket with one stream of so many records, whose writer and directory are gone.
pub fn archived(name: &str, records: u64) -> SimBucket {
    let bucket = SimBucket::new();
    archive_more(&bucket, name, 0..records);
    bucket
}

/// Adds records to a stream of the bucket, by a writer that comes and goes.
pub fn archive_more(bucket: &SimBucket, name: &str, records: Range<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let manager = manager(bucket, tiers());
    let log = manager.open(config(&dir.path().join(name))).unwrap();
    append(&log, records);
    archive(&log);
    log.close().unwrap();
}

/// The keys of segments, in order.
pub fn segment_keys(bucket: &SimBucket) -> Vec<String> {
    bucket.objects().into_keys().filter(|key| key.ends_with(".zst")).collect()
}

/// The key of the latest upload of a segment.
pub fn segment_key(bucket: &SimBucket, segment_id: u64) -> String {
    let of_segment = format!("/{segment_id:020}-");
    let mut keys = bucket.objects().into_keys().filter(|key| key.contains(&of_segment));
    keys.next_back().unwrap()
}

/// The file of a segment in a directory of its log.
pub fn segment_file(root: &Path, dir: &str, segment_id: u64) -> PathBuf {
    let of_segment = format!("{segment_id:020}_");
    let mut files = std::fs::read_dir(root.join(dir)).unwrap().map(|f| f.unwrap().path());
    files.find(|f| f.file_name().unwrap().to_string_lossy().starts_with(&of_segment)).unwrap()
}

/// A reader beside the log's files that knows its bucket.
pub fn reader(bucket: &SimBucket, root: &Path) -> AofReader {
    let store = Arc::new(bucket.clone());
    AofReader::open_on_store(Arc::new(OsStorage), store, &cold(), root).unwrap()
}

/// A scan gives exactly these records, as [`append`] wrote them.
pub fn check(scan: Scan, records: Range<u64>) {
    check_payloads(scan, records, payload);
}

/// The same with other payloads.
pub fn check_payloads(scan: Scan, records: Range<u64>, payload: fn(u64) -> Vec<u8>) {
    let mut expected = records.start;
    for record in scan {
        let record = record.unwrap();
        assert_eq!((record.offset, &*record.payload), (expected, &payload(expected)[..]));
        expected += 1;
    }
    assert_eq!(expected, records.end);
}
