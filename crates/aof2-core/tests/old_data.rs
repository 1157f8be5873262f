//! Reading what is no longer in the hot tier: without waiting, and as a whole.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use aof2_core::object::sim::{BucketFault, SimBucket};
use aof2_core::object::{ObjectErrorKind, ObjectOp};
use aof2_core::*;
use support::bucket::*;
use support::{PATIENCE, eventually};

const MODES: [Hydrate; 3] = [Hydrate::Auto, Hydrate::Never, Hydrate::Always];

fn with_hot(hot_bytes: u64) -> TierConfig {
    TierConfig { hot_bytes, ..tiers() }
}

struct Subject {
    _dir: tempfile::TempDir,
    root: PathBuf,
    bucket: SimBucket,
    _manager: AofManager,
    log: Aof,
    records: u64,
}

impl Subject {
    /// A log whose sealed segments are archived.
    fn archived(tiers: TierConfig, segment_bytes: u64, records: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("events");
        let bucket = SimBucket::new();
        let manager = manager(&bucket, tiers);
        let log = manager.open(config(&root).segment_bytes(segment_bytes)).unwrap();
        append(&log, 0..records);
        archive(&log);
        Self { _dir: dir, root, bucket, _manager: manager, log, records }
    }

    /// One whose sealed segments are nowhere but in the bucket.
    fn cold(tiers: TierConfig, segment_bytes: u64, records: u64) -> Self {
        let tiers = TierConfig { warm_bytes: Some(1), ..tiers };
        let subject = Self::archived(tiers, segment_bytes, records);
        for segment in subject.sealed() {
            subject.log.evict(segment.segment_id).unwrap();
        }
        eventually("everything cold", || {
            subject.sealed().iter().all(|s| s.residency == Residency::Cold)
        });
        subject
    }

    fn sealed(&self) -> Vec<SegmentInfo> {
        self.log.segments().into_iter().filter(|s| s.is_sealed).collect()
    }

    fn scan(&self, hydrate: Hydrate) {
        let options = ScanOptions { hydrate, ..ScanOptions::default() };
        check(self.log.scan(options).unwrap(), 0..self.records);
    }

    fn metrics(&self) -> TierMetrics {
        self.log.tiers().unwrap().metrics
    }

    fn gets(&self) -> u64 {
        self.log.tiers().unwrap().cold.unwrap().requests.op(ObjectOp::Get).requests
    }
}

fn would_block(read: &Result<Record>) -> bool {
    matches!(read, Err(AofError::WouldBlock(BackpressureKind::Hydration)))
}

/// Tries until it is not refused any more.
fn persist(mut read: impl FnMut() -> Result<Record>) -> Result<Record> {
    let mut last = read();
    eventually("an answer", || {
        if would_block(&last) {
            last = read();
        }
        !would_block(&last)
    });
    last
}

#[test]
fn a_read_that_does_not_wait_asks_once_and_finds_the_record_later() {
    let subject = Subject::cold(tiers(), SEGMENT, 300);
    let log = &subject.log;
    let before = subject.gets();
    assert!(would_block(&log.try_read_offset(3)));
    let record = persist(|| log.try_read_offset(3)).unwrap();
    assert_eq!(&*record.payload, &payload(3)[..]);
    assert_eq!(subject.gets(), before + 1, "one request for the window");
    assert_eq!(log.try_read(record.id).unwrap().offset, 3);
    assert_eq!(log.try_read_offset(4).unwrap().offset, 4, "of the same window");
    assert_eq!(subject.gets(), before + 1);
    assert!(log.metrics().blocked_hydration > 0);
    assert!(
        log.metrics()
            .to_prometheus()
            .contains("would_block_total{stream=\"events\",kind=\"hydration\"}")
    );

    // What is in the hot tier, and what was not sealed yet, is there.
    log.hydrate(0, Some(PATIENCE)).unwrap();
    assert_eq!(log.try_read_offset(0).unwrap().offset, 0);
    let id = log.append(&payload(300)).unwrap();
    assert_eq!(log.try_read(id).unwrap().offset, 300, "the writer reads its own");
    let durable = log.try_read_with(id, Visibility::Durable);
    assert!(matches!(durable, Err(AofError::NotDurable(_))), "{durable:?}");
    log.flush().unwrap();
    assert_eq!(log.try_read_offset(300).unwrap().id, id);
    assert!(matches!(log.try_read_offset(301), Err(AofError::PastEnd { end: 301, .. })));

    // A reader of its own, of a compressed file or of an object.
    let reader = reader(&subject.bucket, &subject.root);
    assert!(would_block(&reader.try_read_offset(299)));
    let record = persist(|| reader.try_read_offset(299)).unwrap();
    assert_eq!(&*record.payload, &payload(299)[..]);
    assert_eq!(reader.try_read(record.id).unwrap().offset, 299);
}

#[test]
fn a_read_that_does_not_wait_is_told_why_nothing_came() {
    let subject = Subject::cold(tiers(), SEGMENT, 200);
    subject.bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Unavailable)));
    let failed = persist(|| subject.log.try_read_offset(7));
    assert!(matches!(failed, Err(AofError::Cold(_))), "{failed:?}");
    subject.bucket.clear_faults();
    eventually("the record", || subject.log.try_read_offset(7).is_ok());
    // And of damage, as long as it is there.
    let segment = subject.sealed().pop().unwrap();
    let key = segment_key(&subject.bucket, segment.segment_id);
    assert!(subject.bucket.damage(&key, 100, 1));
    for _ in 0..2 {
        let failed = persist(|| subject.log.try_read_offset(segment.first_offset));
        assert!(matches!(failed, Err(AofError::Corrupt(_))), "{failed:?}");
    }
}

#[test]
fn a_log_in_all_tiers_reads_the_same_in_every_mode() {
    for mode in MODES {
        let subject = Subject::archived(tiers(), SEGMENT, 900);
        let sealed = subject.sealed();
        assert!(sealed.len() > 8);
        for segment in sealed.iter().filter(|s| s.segment_id % 3 != 0) {
            subject.log.evict(segment.segment_id).unwrap();
        }
        for segment in sealed.iter().filter(|s| s.segment_id % 3 == 1) {
            let warm = segment_file(&subject.root, "warm", segment.segment_id);
            std::fs::remove_file(warm).unwrap();
        }
        subject.log.close().unwrap();
        let log = subject._manager.open(config(&subject.root)).unwrap();
        let tiers: BTreeSet<Residency> = log.segments().iter().map(|s| s.residency).collect();
        assert_eq!(tiers.len(), 3, "{tiers:?}");
        let options = ScanOptions { hydrate: mode, ..ScanOptions::default() };
        check(log.scan(options).unwrap(), 0..900);
        // From the middle, in batches, and by a handle that moves nothing.
        let middle = ScanOptions { start: Start::Offset(333), end: End::Offset(777), ..options };
        let mut scan = log.scan(middle).unwrap();
        let mut next = 333;
        while let Some(batch) = scan.next_batch().unwrap() {
            assert_eq!(batch.offsets().start, next);
            next = batch.offsets().end;
        }
        assert_eq!(next, 777);
        let reader = reader(&subject.bucket, &subject.root);
        check(reader.scan(options).unwrap(), 0..900);
    }
}

#[test]
fn always_brings_segments_back_within_the_budget() {
    let budget = 5 * SEGMENT;
    let subject = Subject::cold(with_hot(budget), SEGMENT, 900);
    let count = subject.sealed().len() as u64;
    let options = ScanOptions { hydrate: Hydrate::Always, ..ScanOptions::default() };
    let mut scan = subject.log.scan(options).unwrap();
    let mut expected = 0;
    while let Some(record) = scan.next_record().unwrap() {
        assert_eq!((record.offset, &*record.payload), (expected, &payload(expected)[..]));
        expected += 1;
        let status = subject.log.tiers().unwrap();
        assert!(status.hot_bytes <= budget, "{status:?}");
    }
    assert_eq!(expected, 900);
    assert!(subject.metrics().hydrations >= count, "{:?} of {count}", subject.metrics());
    // What is larger than the budget is read where it is.
    let subject = Subject::cold(with_hot(1), SEGMENT, 300);
    subject.scan(Hydrate::Always);
    assert_eq!(subject.metrics().hydrations, 0);
}

#[test]
fn what_is_read_as_a_whole_for_the_second_time_comes_back_if_there_is_room() {
    let subject = Subject::cold(tiers(), SEGMENT, 300);
    let count = subject.sealed().len() as u64;
    subject.scan(Hydrate::Never);
    subject.scan(Hydrate::Auto);
    eventually("all of them", || subject.metrics().hydrations == count);
    assert!(subject.sealed().iter().all(|s| s.residency == Residency::Hot));

    let subject = Subject::cold(tiers(), SEGMENT, 300);
    let half = ScanOptions { end: End::Offset(40), ..ScanOptions::default() };
    for _ in 0..3 {
        assert_eq!(subject.log.scan(half).unwrap().count(), 40);
    }
    subject.scan(Hydrate::Never);
    subject.scan(Hydrate::Never);
    assert_eq!(subject.log.tiers().unwrap().activations_pending, 0);
    assert_eq!(subject.metrics().hydrations, 0);

    let full = Subject::cold(with_hot(2 * SEGMENT), SEGMENT, 300);
    let (first, last) = (full.sealed()[0].segment_id, full.sealed()[1].segment_id);
    full.log.hydrate(first, Some(PATIENCE)).unwrap();
    let evictions = full.metrics().evictions;
    for _ in 0..3 {
        full.scan(Hydrate::Auto);
    }
    assert_eq!(full.metrics().evictions, evictions, "nothing leaves for it: {last}");
}

#[test]
fn a_scan_of_cold_data_costs_few_requests_and_asks_for_the_next_segment_in_time() {
    let large = TierConfig { frame_bytes: 64 << 10, ..with_hot(64 << 20) };
    let subject = Subject::cold(large, 1 << 20, 11_000);
    let sealed = subject.sealed();
    let count = sealed.len() as u64;
    let mib = sealed.iter().map(|s| s.used_bytes).sum::<u64>() >> 20;
    assert!(count >= 8 && mib >= 7, "{count} segments, {mib} MiB");
    let before = subject.gets();
    subject.scan(Hydrate::Never);
    let gets = subject.gets() - before;
    // The first segment is read faster and faster, the others with one request each.
    assert!(gets <= count + 5, "{gets} requests for {count} segments");

    let asked: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
    let seen = Arc::clone(&asked);
    subject.bucket.fail_when(move |call| {
        let name = call.key.rsplit('/').next().unwrap_or_default();
        let id: Option<u64> = name.split('-').next().and_then(|id| id.parse().ok());
        seen.lock().unwrap().extend(id);
        None
    });
    let options = ScanOptions { hydrate: Hydrate::Never, ..ScanOptions::default() };
    let mut scan = subject.log.scan(options).unwrap();
    for (here, next) in sealed.iter().zip(&sealed[1..]).skip(1) {
        while scan.next_offset() <= here.first_offset {
            scan.next_record().unwrap().unwrap();
        }
        let is_asked_for = || asked.lock().unwrap().contains(&next.segment_id);
        eventually("the next segment is on its way", is_asked_for);
    }
}
