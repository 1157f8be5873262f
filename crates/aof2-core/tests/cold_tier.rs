//! The cold tier on real files and a model of a bucket: what is archived survives the
//! loss of every local copy, stays readable by the same calls, and goes when it is let
//! go.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::time::Duration;

use aof2_core::object::sim::{BucketFault, SimBucket};
use aof2_core::object::{ObjectErrorKind, ObjectOp};
use aof2_core::*;
use support::bucket::*;
use support::{PATIENCE, eventually};

fn residencies(log: &Aof) -> Vec<Residency> {
    log.segments().iter().filter(|s| s.is_sealed).map(|s| s.residency).collect()
}

#[test]
fn losing_the_whole_directory_loses_nothing_that_was_archived() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    {
        let manager = manager(&bucket, tiers());
        let log = manager.open(config(&root)).unwrap();
        append(&log, 0..500);
        archive(&log);
        append(&log, 500..510);
        log.close().unwrap();
    }
    std::fs::remove_dir_all(&root).unwrap();

    let manager = manager(&bucket, tiers());
    let log = manager.open(config(&root)).unwrap();
    assert_eq!(log.watermarks(), Watermarks { appended: 500, durable: 500, archived: 500 });
    assert!(residencies(&log).iter().all(|r| *r == Residency::Cold));
    check(log.scan(ScanOptions::default()).unwrap(), 0..500);
    // Writing goes on where the archive ends.
    append(&log, 500..900);
    archive(&log);
    check(log.scan(ScanOptions::default()).unwrap(), 0..900);
    assert!(log.compare_manifest().unwrap().is_empty());
}

#[test]
fn the_warm_tier_keeps_its_budget_and_a_cold_record_costs_one_small_request() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    let budget = SEGMENT / 2;
    let limits = TierConfig { hot_bytes: 4 * SEGMENT, warm_bytes: Some(budget), ..tiers() };
    let manager = manager(&bucket, limits);
    let log = manager.open(config(&root)).unwrap();
    append(&log, 0..3_000);
    archive(&log);
    eventually("the budgets", || {
        let status = log.tiers().unwrap();
        status.warm_bytes <= budget && status.hot_bytes <= 4 * SEGMENT
    });
    assert!(residencies(&log).contains(&Residency::Cold));
    let local: u64 = std::fs::read_dir(root.join("warm"))
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert!(local <= budget, "{local} bytes of compressed files");

    let before = log.tiers().unwrap().cold.unwrap().requests;
    assert_eq!(&*log.read_offset(3).unwrap().payload, &payload(3)[..]);
    let after = log.tiers().unwrap().cold.unwrap().requests;
    assert_eq!(after.requests(), before.requests() + 1);
    let bytes = after.bytes_in - before.bytes_in;
    assert!(bytes > 0 && bytes < 2 * (8 << 10), "{bytes} bytes for one record");
    check(log.scan(ScanOptions::default()).unwrap(), 0..3_000);

    // And back, from the bucket.
    log.hydrate(0, Some(PATIENCE)).unwrap();
    assert_eq!(residencies(&log)[0], Residency::Hot);
    check(log.scan(ScanOptions::default()).unwrap(), 0..3_000);
    assert!(log.compare_manifest().unwrap().is_empty());
}

#[test]
fn what_retention_lets_go_leaves_the_bucket_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    let patient = TierConfig { cold_delete_after_ms: 3_600_000, ..tiers() };
    let segments = |bucket: &SimBucket| segment_keys(bucket).len();
    let before;
    {
        let manager = manager(&bucket, patient);
        let log = manager.open(config(&root)).unwrap();
        append(&log, 0..600);
        archive(&log);
        before = segments(&bucket);
        let policy = RetentionPolicy { before_offset: Some(300), ..Default::default() };
        let report = log.apply_retention(&policy).unwrap();
        assert!(!report.segments.is_empty());
        let status = log.tiers().unwrap().cold.unwrap();
        assert_eq!(status.deletes_pending, report.segments.len() as u64);
        assert_eq!(segments(&bucket), before, "objects stay for readers that know them");
        assert!(matches!(log.read_offset(0), Err(AofError::Trimmed { .. })));
        log.close().unwrap();
    }
    let manager = manager(&bucket, tiers());
    let log = manager.open(config(&root)).unwrap();
    assert!(matches!(log.read_offset(0), Err(AofError::Trimmed { .. })));
    let gone = log.segments()[0].segment_id as usize;
    eventually("the deletes", || segments(&bucket) == before - gone);
    eventually("the records of it", || log.tiers().unwrap().cold.unwrap().deletes_pending == 0);
    let first = log.segments()[0].first_offset;
    check(log.scan(ScanOptions::default()).unwrap(), first..600);
}

#[test]
fn a_bucket_that_is_down_delays_archiving_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let manager = manager(&bucket, tiers());
    // A new log must know whether the bucket has one of its name.
    let refused = manager.open(config(&root));
    assert!(matches!(refused, Err(AofError::Cold(_))), "{refused:?}");
    bucket.clear_faults();
    // Known to be down, it is not asked again before the next probe is due.
    eventually("the store", || manager.open(config(&root)).is_ok_and(|log| log.close().is_ok()));
    let log = manager.open(config(&root)).unwrap();
    append(&log, 0..10);
    bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    append(&log, 10..500);
    log.seal().unwrap();
    assert!(!log.wait(Level::Archived, 500, Some(Duration::from_millis(50))).unwrap());
    log.close().unwrap();
    // A log that is whole here opens without asking.
    let log = manager.open(config(&root)).unwrap();
    check(log.scan(ScanOptions::default()).unwrap(), 0..500);
    eventually("a reason", || log.tiers().unwrap().cold.unwrap().error.is_some());
    bucket.clear_faults();
    assert!(log.wait(Level::Archived, 500, Some(PATIENCE)).unwrap());
    eventually("no error left", || log.tiers().unwrap().cold.unwrap().error.is_none());
}

#[test]
fn an_upload_whose_answer_was_lost_is_recognised_as_done() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    let manager = manager(&bucket, tiers());
    let log = manager.open(config(&root)).unwrap();
    bucket.fail_when(|call| {
        let is_upload = call.op == ObjectOp::Put && call.key.ends_with(".zst");
        (is_upload && call.index % 2 == 0).then_some(BucketFault::After(ObjectErrorKind::Timeout))
    });
    append(&log, 0..600);
    archive(&log);
    let keys = segment_keys(&bucket);
    assert_eq!(keys.len(), log.segments().iter().filter(|s| s.is_sealed).count());
    assert!(keys.iter().all(|key| key.ends_with("-00000100.zst")), "{keys:?}");
}

#[test]
fn an_object_that_vanished_is_uploaded_again_under_another_key() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    {
        let manager = manager(&bucket, tiers());
        let log = manager.open(config(&root)).unwrap();
        append(&log, 0..600);
        archive(&log);
        log.close().unwrap();
    }
    let lost = bucket.objects().into_keys().find(|key| key.ends_with("-00000100.zst")).unwrap();
    assert!(bucket.remove(&lost));
    let manager = manager(&bucket, tiers());
    let log = manager.open(config(&root)).unwrap();
    // Of the next writer.
    let again = lost.replace("-00000100.zst", "-00000200.zst");
    eventually("the second upload", || bucket.objects().contains_key(&again));
    eventually("the end of it", || log.tiers().unwrap().metrics.cold_missing == 1);
    log.close().unwrap();
    std::fs::remove_dir_all(&root).unwrap();
    let log = manager.open(config(&root)).unwrap();
    check(log.scan(ScanOptions::default()).unwrap(), 0..600);
}

#[test]
fn two_logs_of_one_name_do_not_share_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let bucket = SimBucket::new();
    let manager = manager(&bucket, tiers());
    let one = manager.open(config(&dir.path().join("a/events"))).unwrap();
    append(&one, 0..300);
    archive(&one);
    // Created before it had a cold tier.
    let other = dir.path().join("b/events");
    let manifest_mode = manifest::ManifestMode::Enabled;
    let plain = AofConfig { manifest_mode, recover: false, ..config(&other) };
    Aof::open(plain).unwrap().append(b"something else").unwrap();
    let objects = bucket.objects();
    let refused = manager.open(config(&other));
    assert!(matches!(refused, Err(AofError::NameTaken { .. })), "{refused:?}");
    assert_eq!(bucket.objects(), objects);
    assert!(!other.join("cold").exists());
    let renamed = AofConfig { name: Some("other".into()), ..config(&dir.path().join("c/events")) };
    manager.open(renamed).unwrap();
    check(one.scan(ScanOptions::default()).unwrap(), 0..300);
}

#[test]
fn readers_in_other_handles_reach_the_bucket_too() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let bucket = SimBucket::new();
    let manager = manager(&bucket, TierConfig { warm_bytes: Some(1), hot_bytes: 1, ..tiers() });
    let log = manager.open(config(&root)).unwrap();
    append(&log, 0..600);
    archive(&log);
    eventually("everything cold", || residencies(&log).iter().all(|r| *r == Residency::Cold));
    let reader = reader(&bucket, &root);
    assert_eq!(reader.watermarks().unwrap().archived, 600);
    check(reader.scan(ScanOptions::default()).unwrap(), 0..600);
}
