//! Hot and warm segments on real files: budgets, reading wherever a segment is, and
//! readers that do not notice.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use aof2_core::*;
use support::bucket::{SEGMENT, append_payloads, check_payloads, local_config};
use support::{PATIENCE, eventually};

fn tiers(hot_bytes: u64) -> TierConfig {
    TierConfig { hot_bytes, compression_level: 1, frame_bytes: 8 << 10, ..TierConfig::default() }
}

fn manager(tiers: TierConfig) -> AofManager {
    let config = ManagerConfig { tiers: Some(tiers), ..ManagerConfig::for_one_stream() };
    AofManager::new(config).unwrap()
}

/// Compresses well.
fn payload(i: u64) -> Vec<u8> {
    (0..400 + i % 700).map(|j| (i / 7 + j / 16) as u8).collect()
}

fn append(log: &Aof, records: Range<u64>) {
    append_payloads(log, records, payload);
}

/// Seals what there is and moves every sealed segment out of the hot tier.
fn evict_everything(log: &Aof) {
    log.seal().unwrap();
    for segment in log.segments() {
        log.evict(segment.segment_id).unwrap();
    }
    assert!(log.segments().iter().all(|s| s.residency == Residency::Warm));
}

fn check_scan(scan: Scan, records: Range<u64>) {
    check_payloads(scan, records, payload);
}

fn file_bytes(root: &Path, dir: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(root.join(dir)).unwrap();
    entries.filter_map(|e| Some(e.ok()?.metadata().ok()?.blocks() * 512)).sum()
}

#[test]
fn the_hot_tier_returns_to_its_budget_and_every_record_stays_readable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let hot_bytes = 6 * SEGMENT;
    let manager = manager(tiers(hot_bytes));
    let log = manager.open(local_config(&root)).unwrap();
    append(&log, 0..6_000);
    log.flush().unwrap();
    eventually("the budget holds again", || log.tiers().unwrap().hot_bytes <= hot_bytes);
    let status = log.tiers().unwrap();
    assert!(status.evicted_segments > 40, "{status:?}");
    assert_eq!(status.evicted_segments, status.warm_segments);
    assert_eq!(status.metrics.failures, 0);
    // The files really left the disk; footers take a block each.
    assert!(file_bytes(&root, "segments") <= hot_bytes + 16 * 4096);
    assert!(status.metrics.compressed_bytes * 3 < status.metrics.compressed_raw_bytes);
    check_scan(log.scan(ScanOptions::default()).unwrap(), 0..6_000);
    let reader = AofReader::open(&root).unwrap();
    check_scan(reader.scan(ScanOptions::default()).unwrap(), 0..6_000);
}

#[test]
fn a_strict_writer_never_exceeds_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let hot_bytes = 5 * SEGMENT;
    let manager = manager(TierConfig { admission: AdmissionPolicy::Strict, ..tiers(hot_bytes) });
    let log = manager.open(local_config(&dir.path().join("log"))).unwrap();
    let mut blocked = 0;
    for i in 0..3_000 {
        while let Err(error) = log.append_record(&payload(i)) {
            assert!(matches!(error, AofError::WouldBlock(_)), "{error}");
            blocked +=
                u64::from(matches!(error, AofError::WouldBlock(BackpressureKind::Admission)));
        }
        let used = log.tiers().unwrap().hot_bytes;
        assert!(used <= hot_bytes, "{used} of {hot_bytes} bytes after record {i}");
    }
    assert!(blocked > 0, "the writer was never in the way");
    check_scan(
        log.scan(ScanOptions { visibility: Visibility::Appended, ..Default::default() }).unwrap(),
        0..3_000,
    );
}

#[test]
fn an_evicted_segment_is_found_by_id_offset_and_time() {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let dir = tempfile::tempdir().unwrap();
        let manager = manager(tiers(1 << 30));
        let log = manager.open(local_config(&dir.path().join("log")).format(format)).unwrap();
        append(&log, 0..700);
        log.flush().unwrap();
        let ids: Vec<RecordId> =
            log.scan(ScanOptions::default()).unwrap().map(|record| record.unwrap().id).collect();
        evict_everything(&log);
        for (i, id) in ids.iter().enumerate() {
            let i = i as u64;
            let record = log.read(*id).unwrap();
            assert_eq!((record.offset, &*record.payload), (i, &payload(i)[..]));
            assert_eq!(log.read_offset(i).unwrap().id, *id);
            assert_eq!(log.offset_at(1_000 + i, Visibility::Durable).unwrap(), i);
            let made_up = RecordId::from_u64(id.as_u64() + 8);
            assert!(matches!(log.read(made_up), Err(AofError::NoSuchRecord(_))), "{made_up}");
        }
        for start in [0, 1, 350, 699, 700] {
            let options = ScanOptions { start: Start::Offset(start), ..Default::default() };
            check_scan(log.scan(options).unwrap(), start..700);
        }
        let options = ScanOptions { end: End::Offset(333), ..Default::default() };
        check_scan(log.scan(options).unwrap(), 0..333);
    }
}

#[test]
fn segments_come_back_byte_for_byte_and_pinned_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let manager = manager(tiers(2 * SEGMENT));
    let log = manager.open(local_config(&root)).unwrap();
    append(&log, 0..50);
    log.seal().unwrap();
    let path = log.segments()[0].path.clone();
    let before = std::fs::read(&path).unwrap();
    log.evict(0).unwrap();
    assert!(!path.exists());
    assert!(log.hydrate(0, Some(PATIENCE)).unwrap() > 0);
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(log.hydrate(0, Some(PATIENCE)).unwrap(), 0, "it is there already");
    log.pin(0, Some(PATIENCE)).unwrap();
    append(&log, 50..1_500);
    log.seal().unwrap();
    eventually("others leave", || log.tiers().unwrap().hot_bytes <= 2 * SEGMENT);
    assert_eq!(log.segments()[0].residency, Residency::Hot);
    assert!(log.unpin(0).unwrap());
    append(&log, 1_500..1_700);
    log.seal().unwrap();
    eventually("it may leave again", || log.segments()[0].residency == Residency::Warm);
    assert!(matches!(log.evict(999), Err(AofError::NoSuchSegment(_))));
    assert!(matches!(log.hydrate(999, None), Err(AofError::NoSuchSegment(_))));
}

#[test]
fn what_a_reader_holds_outlives_the_segment_file() {
    let dir = tempfile::tempdir().unwrap();
    let manager = manager(tiers(1 << 30));
    let log = manager.open(local_config(&dir.path().join("log"))).unwrap();
    append(&log, 0..300);
    log.flush().unwrap();
    let mut scan = log.scan(ScanOptions::default()).unwrap();
    let held = scan.next_batch().unwrap().unwrap();
    let reader = AofReader::open(dir.path().join("log")).unwrap();
    let mut other = reader.scan(ScanOptions::default()).unwrap();
    let first = other.next_record().unwrap().unwrap();
    evict_everything(&log);
    assert!(held.iter().all(|record| record.payload == payload(record.offset)));
    assert_eq!(&*first.payload, &payload(0)[..]);
    check_scan(other, 1..300);
    let rest = held.offsets().end;
    check_scan(scan, rest..300);
}

#[test]
fn a_log_is_whole_after_reopening_with_tiers_or_without() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    {
        let manager = manager(tiers(1 << 30));
        let log = manager.open(local_config(&root)).unwrap();
        append(&log, 0..500);
        evict_everything(&log);
        log.close().unwrap();
    }
    assert_eq!(std::fs::read_dir(root.join("segments")).unwrap().count(), 0);
    let log = Aof::open(local_config(&root)).unwrap();
    assert_eq!(log.watermarks().durable, 500);
    append(&log, 500..600);
    log.flush().unwrap();
    check_scan(log.scan(ScanOptions::default()).unwrap(), 0..600);
    assert!(matches!(log.tiers(), Err(AofError::InvalidConfig { field: "tiers", .. })));
    log.close().unwrap();
    let manager = manager(tiers(SEGMENT));
    let log = manager.open(local_config(&root)).unwrap();
    assert_eq!(log.compare_manifest().unwrap(), []);
    check_scan(log.scan(ScanOptions::default()).unwrap(), 0..600);
}

#[test]
fn retention_removes_compressed_segments_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let manager = manager(tiers(1 << 30));
    let log = manager.open(local_config(&root)).unwrap();
    append(&log, 0..500);
    evict_everything(&log);
    append(&log, 500..510);
    log.flush().unwrap();
    let policy = RetentionPolicy { before_offset: Some(500), ..Default::default() };
    let report = log.apply_retention(&policy).unwrap();
    assert_eq!(report.earliest_offset, 500);
    assert_eq!(std::fs::read_dir(root.join("warm")).unwrap().count(), 0);
    assert!(matches!(log.read_offset(10), Err(AofError::Trimmed { earliest: 500 })));
    check_scan(log.scan(ScanOptions::default()).unwrap(), 500..510);
}

#[test]
fn a_follower_reads_on_while_segments_leave_behind_and_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let manager = manager(tiers(2 * SEGMENT));
    let log = manager.open(local_config(&root)).unwrap();
    let follower = std::thread::spawn({
        append(&log, 0..1);
        log.flush().unwrap();
        let reader = AofReader::open(&root).unwrap();
        move || {
            let mut follow = reader.follow(ScanOptions::default()).unwrap();
            for i in 0..4_000 {
                let record = follow.next_record(Some(PATIENCE)).unwrap().unwrap();
                assert_eq!((record.offset, &*record.payload), (i, &payload(i)[..]));
            }
        }
    });
    append(&log, 1..4_000);
    log.flush().unwrap();
    follower.join().unwrap();
    assert!(log.tiers().unwrap().metrics.evictions > 0);
}

#[test]
fn damage_in_a_compressed_segment_is_reported_and_the_rest_is_readable() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let manager = manager(tiers(1 << 30));
    let log = manager.open(local_config(&root)).unwrap();
    append(&log, 0..200);
    evict_everything(&log);
    let file = std::fs::read_dir(root.join("warm")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0x10;
    std::fs::write(&file, bytes).unwrap();
    let reader = AofReader::open(&root).unwrap();
    let failed = reader.scan(ScanOptions::default()).unwrap().find_map(|record| record.err());
    let Some(AofError::Corrupt(damage)) = failed else { panic!("{failed:?}") };
    assert_eq!(damage.path, file);
    let options = ScanOptions { on_corruption: OnCorruption::Skip, ..Default::default() };
    let mut scan = reader.scan(options).unwrap();
    let mut read = Vec::new();
    for record in scan.by_ref() {
        let record = record.unwrap();
        assert_eq!(&*record.payload, &payload(record.offset)[..]);
        read.push(record.offset);
    }
    let lost: Vec<u64> = (0..200).filter(|i| !read.contains(i)).collect();
    assert_eq!(scan.skipped(), lost.len() as u64);
    assert_eq!(lost, damage.records.clone().collect::<Vec<_>>());
    assert!(!lost.is_empty() && lost.len() < 30, "{lost:?}");
}

#[test]
fn a_refused_hydration_waits_for_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let manager = manager(tiers(1 << 30));
    let log = manager.open(local_config(&dir.path().join("log"))).unwrap();
    append(&log, 0..50);
    evict_everything(&log);
    log.close().unwrap();
    assert!(matches!(log.hydrate(0, Some(Duration::from_secs(1))), Err(AofError::Closed)));
    assert!(matches!(log.evict(0), Err(AofError::Closed)));
}

/// A scan that passes over damage once never came to an end behind a segment whose first
/// frame was damaged, and did not begin in one.
#[test]
fn a_skipping_scan_passes_any_damaged_frame() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    let manager = manager(tiers(1 << 30));
    let log = manager.open(local_config(&root)).unwrap();
    append(&log, 0..250);
    evict_everything(&log);
    log.close().unwrap();
    let mut files: Vec<_> =
        std::fs::read_dir(root.join("warm")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 3);
    let skip =
        |start| ScanOptions { start, on_corruption: OnCorruption::Skip, ..Default::default() };
    for file in &files {
        let whole = std::fs::read(file).unwrap();
        // Somewhere in every frame: they are shorter than that when compressed.
        for at in (20..whole.len()).step_by(40) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xFF;
            std::fs::write(file, bytes).unwrap();
            let reader = AofReader::open(&root).unwrap();
            for start in [Start::Earliest, Start::Offset(100), Start::Timestamp(1_100)] {
                let first = if start == Start::Earliest { 0 } else { 100 };
                let mut scan = reader.scan(skip(start)).unwrap();
                let mut read = Vec::new();
                for record in scan.by_ref() {
                    let record = record.unwrap();
                    assert_eq!(&*record.payload, &payload(record.offset)[..]);
                    assert!(read.last().is_none_or(|last| *last < record.offset));
                    read.push(record.offset);
                }
                let lost = (first..250).filter(|i| !read.contains(i)).count() as u64;
                // Of what cannot be read nobody knows which records are older.
                let is_exact = !matches!(start, Start::Timestamp(_));
                let skipped = scan.skipped();
                assert!(
                    skipped == lost || !is_exact,
                    "{skipped} of {lost}, byte {at} of {}",
                    file.display()
                );
                assert!(read.iter().all(|offset| *offset >= first));
            }
        }
        std::fs::write(file, &whole).unwrap();
    }
}
