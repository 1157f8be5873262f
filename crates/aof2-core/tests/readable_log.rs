//! One log, read through every handle there is: the writer's own, a reader of its directory,
//! a reader of its bucket. Code that is written once finds the same records through all.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::PathBuf;
use std::sync::Arc;

use aof2_core::object::sim::SimBucket;
use aof2_core::*;
use support::bucket::*;
use support::{PATIENCE, eventually};

const RECORDS: u64 = 600;

/// A log in a directory and in a bucket, with its writer.
struct Archived {
    log: Aof,
    bucket: SimBucket,
    root: PathBuf,
    _manager: AofManager,
    _dir: tempfile::TempDir,
}

impl Archived {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("events");
        let bucket = SimBucket::new();
        let manager = manager(&bucket, tiers());
        let log = manager.open(config(&root)).unwrap();
        append(&log, 0..RECORDS);
        archive(&log);
        Self { log, bucket, root, _manager: manager, _dir: dir }
    }

    fn beside_the_writer(&self) -> AofReader {
        reader(&self.bucket, &self.root)
    }

    fn of_the_bucket(&self) -> AofReader {
        AofReader::open_bucket_on(Arc::new(self.bucket.clone()), &cold(), "events").unwrap()
    }
}

/// What identifies a record, and what it says.
fn told(record: &Record) -> (u64, u64, u64, Vec<u8>) {
    (record.id.as_u64(), record.offset, record.timestamp_ms, record.payload.to_vec())
}

/// A read that does not wait finds the record, sooner or later.
fn tried(mut read: impl FnMut() -> Result<Record>) -> Record {
    let mut found = None;
    eventually("the window did not come", || {
        found = match read() {
            Err(AofError::WouldBlock(BackpressureKind::Hydration)) => None,
            read => Some(read.unwrap()),
        };
        found.is_some()
    });
    found.unwrap()
}

/// Reads by every method, and gives what a scan finds.
fn read_by_every_method(log: &impl ReadableLog) -> Vec<(u64, u64, u64, Vec<u8>)> {
    assert_eq!((log.name(), log.format()), ("events", SegmentFormat::Full));
    let end = Watermarks { appended: RECORDS, durable: RECORDS, archived: RECORDS };
    assert_eq!(log.watermarks().unwrap(), end);
    assert_eq!(log.earliest_offset().unwrap(), 0);
    let segments = log.segments().unwrap();
    assert_eq!(segments.iter().map(|s| s.record_count).sum::<u64>(), RECORDS);

    for offset in [0, 1, 77, 300, RECORDS - 1] {
        let record = log.read_offset(offset).unwrap();
        assert_eq!((record.offset, &*record.payload), (offset, &payload(offset)[..]));
        let expected = told(&record);
        let durable = Visibility::Durable;
        assert_eq!(told(&log.read(record.id).unwrap()), expected);
        assert_eq!(told(&log.read_with(record.id, durable).unwrap()), expected);
        assert_eq!(told(&log.read_offset_with(offset, durable).unwrap()), expected);
        assert_eq!(told(&tried(|| log.try_read(record.id))), expected);
        assert_eq!(told(&tried(|| log.try_read_with(record.id, durable))), expected);
        assert_eq!(told(&tried(|| log.try_read_offset(offset))), expected);
        assert_eq!(told(&tried(|| log.try_read_offset_with(offset, durable))), expected);
        assert_eq!(log.offset_at(1_000 + offset, durable).unwrap(), offset);
    }
    let past_end = log.read_offset(RECORDS).unwrap_err();
    assert!(matches!(past_end, AofError::PastEnd { end: RECORDS, is_appended: false, .. }));
    let made_up = RecordId::from_u64(segments[0].segment_id << 32 | 3);
    assert!(matches!(log.read(made_up), Err(AofError::NoSuchRecord(_))));

    let from = ScanOptions { start: Start::Offset(RECORDS - 2), ..Default::default() };
    let mut follow = log.follow(from).unwrap();
    for offset in [RECORDS - 2, RECORDS - 1] {
        assert_eq!(follow.next_record(Some(PATIENCE)).unwrap().unwrap().offset, offset);
    }
    log.scan(ScanOptions::default()).unwrap().map(|record| told(&record.unwrap())).collect()
}

#[test]
fn the_same_code_finds_the_same_records_through_every_handle() {
    let archived = Archived::new();
    let written = read_by_every_method(&archived.log);
    assert_eq!(written.len() as u64, RECORDS);
    assert_eq!(read_by_every_method(&archived.beside_the_writer()), written);
    assert_eq!(read_by_every_method(&archived.of_the_bucket()), written);
}

/// What a handle sees by itself of a record that is appended and not durable.
fn sees_by_itself(log: &dyn ReadableLog, id: RecordId, offset: u64) -> bool {
    let sees = log.read_visibility() == Visibility::Appended;
    let by_id = [log.read(id), log.try_read(id)];
    assert!(by_id.iter().all(|read| match read {
        Ok(_) => sees,
        Err(error) => !sees && matches!(error, AofError::NotDurable(_)),
    }));
    let by_offset = [log.read_offset(offset), log.try_read_offset(offset)];
    assert!(by_offset.iter().all(|read| match read {
        Ok(_) => sees,
        Err(error) => !sees && matches!(error, AofError::PastEnd { is_appended: true, .. }),
    }));
    assert!(log.read_with(id, Visibility::Appended).is_ok());
    assert_eq!(log.scan(ScanOptions::default()).unwrap().count(), 1, "a scan sees durable records");
    sees
}

#[test]
fn only_the_writer_reads_what_is_not_durable_without_asking() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let flush = FlushConfig { flush_interval_ms: 0, ..Default::default() };
    let log = Aof::open(AofConfig { flush, ..AofConfig::new(&root) }).unwrap();
    log.append(b"durable").unwrap();
    log.flush().unwrap();
    let id = log.append(b"not durable").unwrap();
    assert!(sees_by_itself(&log, id, 1));
    assert!(!sees_by_itself(&AofReader::open(&root).unwrap(), id, 1));
}
