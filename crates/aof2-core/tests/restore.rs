//! A log comes back from its bucket alone, whole or with word of what is missing, however
//! often the way there was interrupted.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use aof2_core::io::OsStorage;
use aof2_core::object::sim::{BucketFault, SimBucket};
use aof2_core::object::{ObjectErrorKind, ObjectMeta, ObjectOp};
use aof2_core::*;
use support::bucket::*;

const ALL: RestoreOptions = RestoreOptions { download: true };
const INDEX_ONLY: RestoreOptions = RestoreOptions { download: false };

fn run(bucket: &SimBucket, target: &Path, options: &RestoreOptions) -> Result<RestoreReport> {
    let go_on = &mut |_| ControlFlow::Continue(());
    run_told(bucket, target, options, go_on)
}

fn run_told(
    bucket: &SimBucket,
    target: &Path,
    options: &RestoreOptions,
    progress: &mut dyn FnMut(RestoreProgress) -> ControlFlow<()>,
) -> Result<RestoreReport> {
    let (storage, store) = (Arc::new(OsStorage), Arc::new(bucket.clone()));
    restore_on(storage, store, &cold(), "events", target, options, progress)
}

#[test]
fn what_was_downloaded_needs_the_bucket_no_more() {
    let bucket = archived("events", 600);
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("deep/restored");
    let mut told = Vec::new();
    let report = run_told(&bucket, &target, &ALL, &mut |at| {
        told.push(at);
        ControlFlow::Continue(())
    })
    .unwrap();
    let segments = segment_keys(&bucket).len() as u64;
    let bytes: u64 =
        segment_keys(&bucket).iter().map(|key| bucket.objects()[key].bytes.len() as u64).sum();
    assert_eq!((report.name.as_str(), report.stream_id), ("events", stream_id(&bucket)));
    assert_eq!((report.segments, report.records, report.bytes), (segments, 600, bytes));
    assert_eq!((report.first_offset, report.next_offset), (0, 600));
    assert!(report.missing.is_empty(), "{:?}", report.missing);
    let last = told.last().unwrap();
    let whole = RestoreProgress {
        segments_done: segments,
        segments_total: segments,
        bytes_done: bytes,
        bytes_total: bytes,
    };
    assert_eq!(*last, whole);
    assert!(told.is_sorted_by_key(|at| (at.segments_done, at.bytes_done)), "{told:?}");

    let gone = SimBucket::new();
    let calls = gone.calls();
    let reader = reader(&gone, &target);
    assert!(reader.segments().unwrap().iter().all(|s| s.residency == Residency::Warm));
    check(reader.scan(ScanOptions::default()).unwrap(), 0..600);
    assert_eq!(gone.calls(), calls);
    assert!(verify(&target).unwrap().is_healthy());

    // And it is a log to write to, under its name.
    let log = Aof::open(AofConfig::new(&target)).unwrap();
    assert_eq!(log.name(), "events");
    append(&log, 600..650);
    check(
        log.scan(ScanOptions { visibility: Visibility::Appended, ..Default::default() }).unwrap(),
        0..650,
    );
}

#[test]
fn an_index_alone_is_read_from_the_bucket_and_downloaded_later() {
    let bucket = archived("events", 600);
    let dir = tempfile::tempdir().unwrap();
    let report = run(&bucket, dir.path(), &INDEX_ONLY).unwrap();
    assert_eq!((report.records, report.bytes), (600, 0));
    assert!(!dir.path().join("warm").exists());
    {
        let reader = reader(&bucket, dir.path());
        assert!(reader.segments().unwrap().iter().all(|s| s.residency == Residency::Cold));
        check(reader.scan(ScanOptions::default()).unwrap(), 0..600);
    }
    let report = run(&bucket, dir.path(), &ALL).unwrap();
    assert!(report.bytes > 0);
    assert_eq!(run(&bucket, dir.path(), &ALL).unwrap().bytes, 0, "nothing is fetched twice");
    check(reader(&SimBucket::new(), dir.path()).scan(ScanOptions::default()).unwrap(), 0..600);
}

#[test]
fn a_restore_that_was_cut_anywhere_is_run_again() {
    let bucket = archived("events", 300);
    let whole = {
        let image = bucket.image();
        let dir = tempfile::tempdir().unwrap();
        run(&image, dir.path(), &ALL).unwrap();
        image.calls()
    };
    assert!(whole > 5);
    for call in 0..whole {
        let dir = tempfile::tempdir().unwrap();
        let image = bucket.image();
        image.crash_at(call);
        let error = run(&image, dir.path(), &ALL).unwrap_err();
        assert!(image.is_crashed(), "{error:?}");
        let report = run(&bucket, dir.path(), &ALL).unwrap();
        assert_eq!((report.records, report.missing.len()), (300, 0), "cut at request {call}");
        check(reader(&SimBucket::new(), dir.path()).scan(ScanOptions::default()).unwrap(), 0..300);
    }
}

#[test]
fn a_writer_that_was_cut_while_it_looked_in_the_bucket_looks_again() {
    // The bucket's manifest knows less than the bucket: chunks are uploaded when they are
    // full. A directory that had its identity and all segments of the manifest was
    // believed to be complete.
    const RECORDS: u64 = 4_000;
    let bucket = SimBucket::new();
    {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir.path().join("events"));
        config.manifest.chunk_bytes = 16 << 10;
        let manager = manager(&bucket, tiers());
        let log = manager.open(config).unwrap();
        append(&log, 0..RECORDS);
        archive(&log);
        let is_chunk = |key: &String| key.ends_with(".mlog");
        support::eventually("a chunk is uploaded", || bucket.objects().keys().any(is_chunk));
        log.close().unwrap();
    }
    let mut call = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let image = bucket.image();
        image.crash_at(call);
        let opened = manager(&image, tiers()).open(config(&dir.path().join("events")));
        if opened.is_ok() {
            break;
        }
        let again = manager(&bucket.image(), tiers());
        let log = again.open(config(&dir.path().join("events"))).unwrap();
        assert_eq!(log.watermarks().appended, RECORDS, "cut at request {call}");
        call += 1;
    }
    assert!(call as usize > segment_keys(&bucket).len(), "{call} requests");
}

#[test]
fn a_restore_ends_when_it_is_told_to() {
    let bucket = archived("events", 300);
    let dir = tempfile::tempdir().unwrap();
    let mut left = 3;
    let cancelled = run_told(&bucket, dir.path(), &ALL, &mut |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(cancelled, Err(AofError::Cancelled)), "{cancelled:?}");
    assert_eq!(left, 0);
    assert_eq!(run(&bucket, dir.path(), &ALL).unwrap().records, 300);
}

#[test]
fn a_damaged_object_is_told_and_the_others_come_back() {
    let bucket = archived("events", 600);
    let keys = segment_keys(&bucket);
    let segments = AofReader::open_bucket_on(Arc::new(bucket.clone()), &cold(), "events")
        .unwrap()
        .segments()
        .unwrap();
    // One with damaged records, one that is something else, one that is gone, and one
    // more at the end of which nobody knows how long it was.
    assert!(bucket.damage(&keys[1], 100, 0xff));
    let junk = bytes::Bytes::from_static(b"somebody else's");
    bucket.insert(&keys[2], junk.clone(), ObjectMeta::default());
    assert!(bucket.remove(&keys[4]));
    let dir = keys[0].rsplit_once('/').unwrap().0;
    let behind = keys.len() as u64;
    bucket.insert(&format!("{dir}/{behind:020}-00000100.zst"), junk, ObjectMeta::default());

    let target = tempfile::tempdir().unwrap();
    let report = run(&bucket, target.path(), &ALL).unwrap();
    let missing: Vec<u64> = report.missing.iter().map(|m| m.segment_id).collect();
    assert_eq!(missing, [1, 2, 4, behind]);
    for lost in report.missing.iter().take(3) {
        let segment = &segments[lost.segment_id as usize];
        let end = segment.first_offset + segment.record_count;
        assert_eq!(lost.records, segment.first_offset..end, "{lost:?}");
    }
    assert!(report.missing[0].reason.contains(&keys[1]), "{}", report.missing[0].reason);
    assert_eq!(report.missing[3].records, 600..u64::MAX);
    assert_eq!(report.segments, keys.len() as u64 - 3);
    let lost: u64 = report.missing[..3].iter().map(|m| m.records.end - m.records.start).sum();
    assert_eq!(report.records, 600 - lost);

    let reader = reader(&SimBucket::new(), target.path());
    for segment in segments.iter().filter(|s| ![1, 2, 4].contains(&s.segment_id)) {
        let end = segment.first_offset + segment.record_count;
        let options = ScanOptions {
            start: Start::Offset(segment.first_offset),
            end: End::Offset(end),
            ..Default::default()
        };
        check(reader.scan(options).unwrap(), segment.first_offset..end);
    }
}

#[test]
fn a_bucket_in_trouble_ends_a_restore_and_damages_nothing() {
    let bucket = archived("events", 300);
    let target = tempfile::tempdir().unwrap();
    let image = bucket.image();
    let last = segment_keys(&image).pop().unwrap();
    image.fail_when(move |call| {
        let is_it = call.op == ObjectOp::Get && call.key == last;
        is_it.then_some(BucketFault::Before(ObjectErrorKind::Denied))
    });
    let error = run(&image, target.path(), &ALL).unwrap_err();
    assert!(matches!(error, AofError::Cold(_)), "{error:?}");
    assert_eq!(run(&bucket, target.path(), &ALL).unwrap().missing, []);
}

#[test]
fn a_directory_with_another_log_is_refused_and_left_alone() {
    let bucket = archived("events", 100);
    let dir = tempfile::tempdir().unwrap();
    for (name, says) in [("other", "the log \"other\""), ("events", "another log")] {
        let target = dir.path().join(name);
        let log = Aof::open(AofConfig::new(&target)).unwrap();
        log.append(b"mine").unwrap();
        log.close().unwrap();
        let error = run(&bucket, &target, &ALL).unwrap_err();
        assert!(matches!(error, AofError::InvalidConfig { field: "target", .. }), "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!target.join("cold").exists() && !target.join("warm").exists());
    }
    // Nor is one without its identity taken for empty.
    std::fs::remove_file(dir.path().join("other/stream")).unwrap();
    let error = run(&bucket, &dir.path().join("other"), &ALL).unwrap_err();
    assert!(error.to_string().contains("segments of a log"), "{error}");
}

#[test]
fn a_log_that_is_being_written_is_not_restored() {
    let bucket = SimBucket::new();
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("events");
    let manager = manager(&bucket, tiers());
    let log = manager.open(config(&root)).unwrap();
    append(&log, 0..100);
    archive(&log);
    assert!(matches!(run(&bucket, &root, &ALL), Err(AofError::Locked { .. })));
    log.close().unwrap();
    // Its own directory lacks nothing.
    assert_eq!(run(&bucket, &root, &ALL).unwrap().bytes, 0);
}

#[test]
fn a_stream_that_is_not_there_is_told_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("restored");
    let error = run(&SimBucket::new(), &target, &ALL).unwrap_err();
    assert!(matches!(error, AofError::NotALog { .. }), "{error:?}");
    assert!(!target.exists());
}

#[test]
fn a_stream_whose_identity_was_lost_comes_back_under_the_name_asked_for() {
    let bucket = archived("events", 100);
    let identity = bucket.objects().into_keys().find(|key| key.ends_with("/stream")).unwrap();
    assert!(bucket.remove(&identity));
    let target = tempfile::tempdir().unwrap();
    assert_eq!(run(&bucket, target.path(), &ALL).unwrap().records, 100);
    assert_eq!(run(&bucket, target.path(), &ALL).unwrap().name, "events");
    check(reader(&SimBucket::new(), target.path()).scan(ScanOptions::default()).unwrap(), 0..100);
}
