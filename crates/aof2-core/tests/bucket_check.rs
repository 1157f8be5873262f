//! Verifying and scrubbing a log of which there is nothing but a bucket: what is wrong is
//! found, what only moved meanwhile is not, and nothing is written. What is written needs
//! a directory, and an address is none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use aof2_core::io::{OsStorage, Storage, SystemClock};
use aof2_core::object::sim::{BucketFault, SimBucket};
use aof2_core::object::{ObjectErrorKind, ObjectMeta, ObjectOp};
use aof2_core::*;
use support::bucket::*;

const LOOK: ScrubOptions = ScrubOptions {
    hot: true,
    warm: true,
    cold: true,
    segments: 0..u64::MAX,
    bytes_per_second: None,
    heal: false,
};

fn verified(bucket: &SimBucket) -> VerifyReport {
    verified_while(bucket, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn verified_while(bucket: &SimBucket, progress: Progress<'_>) -> Result<VerifyReport> {
    verify_bucket_on(Arc::new(bucket.clone()), &cold(), "events", progress)
}

fn scrubbed(bucket: &SimBucket) -> ScrubReport {
    scrubbed_while(bucket, &LOOK, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn scrubbed_while(
    bucket: &SimBucket,
    options: &ScrubOptions,
    progress: &mut dyn FnMut(&ScrubProgress) -> ControlFlow<()>,
) -> Result<ScrubReport> {
    scrub_bucket_on(Arc::new(bucket.clone()), &cold(), "events", options, progress)
}

/// Offsets that a reader of the bucket passes over.
fn lost(bucket: &SimBucket) -> Vec<Range<u64>> {
    let reader = AofReader::open_bucket_on(Arc::new(bucket.clone()), &cold(), "events").unwrap();
    let options = ScanOptions { on_corruption: OnCorruption::Skip, ..Default::default() };
    let (mut next, mut lost) = (0, Vec::new());
    for record in reader.scan(options).unwrap() {
        let offset = record.unwrap().offset;
        lost.extend((next < offset).then_some(next..offset));
        next = offset + 1;
    }
    lost
}

fn objects_len(bucket: &SimBucket) -> u64 {
    let keys = segment_keys(bucket);
    bucket
        .objects()
        .iter()
        .filter(|(k, _)| keys.contains(k))
        .map(|(_, o)| o.bytes.len() as u64)
        .sum()
}

#[test]
fn a_log_in_order_is_healthy_and_clean() {
    let bucket = archived("events", 600);
    let segments = segment_keys(&bucket).len() as u64;
    let mut told = Vec::new();
    let report = verified_while(&bucket, &mut |at| {
        told.push(at);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(report.is_healthy() && report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!((report.record_count, report.first_offset, report.next_offset), (600, 0, 600));
    assert_eq!((report.name.as_str(), report.durable_offset), ("events", None));
    assert_eq!(report.root, Path::new("s3://bucket/some/prefix/events"));
    assert_eq!(report.segments.len() as u64, segments);
    assert!(report.segments.iter().all(|s| s.residency == Residency::Cold && s.is_sealed));
    assert_eq!(told.len() as u64, segments + 1);
    let (first, last) = (told[0], told[told.len() - 1]);
    assert_eq!((first.bytes_done, last.bytes_done), (0, objects_len(&bucket)));
    assert!(told.iter().all(|at| at.bytes_total == objects_len(&bucket)));

    let mut told = Vec::new();
    let report = scrubbed_while(&bucket, &LOOK, &mut |at| {
        told.push(*at);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(report.is_complete && report.is_clean(), "{report:?}");
    assert_eq!((report.segments, report.copies), (segments, segments));
    assert_eq!(report.bytes, objects_len(&bucket));
    assert_eq!(told.last().map(|at| (at.segments, at.segments_total)), Some((segments, segments)));
}

#[test]
fn damage_is_named_with_the_records_that_readers_miss() {
    let bucket = archived("events", 600);
    let key = segment_key(&bucket, 1);
    // In the second and the last frame of records, so that some before, between and behind
    // them are good.
    let len = bucket.objects()[&key].bytes.len() as u64;
    assert!(bucket.damage(&key, len / 4, 0x10) && bucket.damage(&key, len * 3 / 4, 0x10));
    let lost = lost(&bucket);
    assert_eq!(lost.len(), 2, "{lost:?}");

    let report = verified(&bucket);
    assert!(!report.is_healthy());
    let named: Vec<_> = report.problems.iter().map(|p| p.records.clone()).collect();
    assert_eq!(named, lost, "{:?}", report.problems);
    let path = PathBuf::from(format!("s3://bucket/{key}"));
    assert!(report.problems.iter().all(|p| p.path == path && p.kind == ProblemKind::Record));
    let gone: u64 = lost.iter().map(|range| range.end - range.start).sum();
    assert_eq!((report.record_count, report.next_offset), (600 - gone, 600));

    let report = scrubbed(&bucket);
    assert!(report.is_complete && !report.is_clean());
    let [finding] = &report.findings[..] else { panic!("{report:?}") };
    assert_eq!((finding.segment_id, finding.tier), (1, Residency::Cold));
    assert_eq!(finding.outcome, ScrubOutcome::Damaged);
    assert_eq!(finding.place, format!("s3://bucket/{key}"));
    assert_eq!(finding.unreadable, lost);
}

#[test]
fn an_object_without_its_index_a_missing_and_a_foreign_one_are_told() {
    let bucket = archived("events", 600);
    let whole = verified(&bucket);
    let keys = segment_keys(&bucket);
    assert!(keys.len() >= 5, "{keys:?}");
    let len = bucket.objects()[&keys[1]].bytes.len() as u64;
    assert!(bucket.damage(&keys[1], len - 20, 0xff));
    assert!(bucket.remove(&keys[2]));
    // The bytes of another segment under this key.
    let other = bucket.objects()[&keys[0]].clone();
    bucket.insert(&keys[3], other.bytes, other.meta);

    let records = |i: usize| {
        let segment = &whole.segments[i];
        segment.first_offset..segment.first_offset + segment.record_count
    };
    let report = verified(&bucket);
    let found: Vec<_> = report.problems.iter().map(|p| (p.kind, p.records.clone())).collect();
    let missing = records(2).start..records(3).end;
    assert_eq!(
        found,
        [
            (ProblemKind::Foreign, 0..0),
            (ProblemKind::Copy, records(1)),
            (ProblemKind::MissingSegment, missing.clone()),
        ],
        "{:?}",
        report.problems
    );
    assert_eq!(report.problems[2].detail, "2 objects from here on are missing");
    assert_eq!(
        report.problems[2].path,
        PathBuf::from(format!("s3://bucket/{}", keys[2].replace("-00000100.", "-*.")))
    );

    let report = scrubbed(&bucket);
    let found: Vec<_> = report.findings.iter().map(|f| (f.segment_id, &*f.problem)).collect();
    assert_eq!(found[1], (2, "the object is missing"), "{found:?}");
    assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2, 3]);
    // Nothing tells where one of them ended and the next began.
    let between = records(1).start..records(3).end;
    assert_eq!(report.unreadable(), slice::from_ref(&between));
}

#[test]
fn a_stream_without_its_identity_is_damaged_and_its_segments_are_checked() {
    let bucket = archived("events", 600);
    let identity = bucket.objects().into_keys().find(|key| key.ends_with("/stream")).unwrap();
    assert!(bucket.remove(&identity));
    let report = verified(&bucket);
    let [problem] = &report.problems[..] else { panic!("{:?}", report.problems) };
    assert_eq!((problem.kind, report.record_count), (ProblemKind::Identity, 600));
    bucket.insert(&identity, b"nonsense".to_vec().into(), ObjectMeta::default());
    let report = verified(&bucket);
    assert_eq!(report.problems[0].kind, ProblemKind::Identity);
    assert!(report.problems[0].detail.contains("damaged"), "{:?}", report.problems);
}

#[test]
fn what_a_writer_removes_or_replaces_meanwhile_is_no_damage() {
    let remove_two = |bucket: &SimBucket| {
        for key in &segment_keys(bucket)[..2] {
            assert!(bucket.remove(key));
        }
    };
    let replace_the_third = |bucket: &SimBucket| {
        let key = segment_key(bucket, 2);
        let object = bucket.objects()[&key].clone();
        bucket.insert(&key.replace("-00000100.zst", "-00000101.zst"), object.bytes, object.meta);
        assert!(bucket.remove(&key));
    };
    let bucket = archived("events", 600);
    let all = segment_keys(&bucket).len();
    let mut change = Some(());
    let report = verified_while(&bucket, &mut |at| {
        if at.segment_id == 1 && change.take().is_some() {
            remove_two(&bucket);
            replace_the_third(&bucket);
        }
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(report.segments.len(), all - 2);

    let bucket = archived("events", 600);
    let mut change = Some(());
    let report = scrubbed_while(&bucket, &LOOK, &mut |at| {
        if at.segment_id == 1 && change.take().is_some() {
            remove_two(&bucket);
            replace_the_third(&bucket);
        }
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert!(report.is_clean() && report.findings.is_empty(), "{report:?}");
}

#[test]
fn a_bit_that_flips_on_its_way_is_read_again() {
    let bucket = archived("events", 600);
    let key = segment_key(&bucket, 1);
    let is_flipped = Arc::new(AtomicBool::new(false));
    let flip_once = |reads_before: usize| {
        bucket.clear_faults();
        is_flipped.store(false, Ordering::SeqCst);
        let (key, is_flipped, reads) = (key.clone(), Arc::clone(&is_flipped), AtomicUsize::new(0));
        bucket.fail_when(move |call| {
            let is_read = call.op == ObjectOp::Get && call.key == key;
            let is_due = is_read && reads.fetch_add(1, Ordering::SeqCst) == reads_before;
            is_flipped.fetch_or(is_due, Ordering::SeqCst);
            is_due.then_some(BucketFault::Flip)
        });
    };
    flip_once(0);
    assert!(verified(&bucket).is_healthy());
    assert!(is_flipped.load(Ordering::SeqCst));
    // Behind the ends, which the reader and the check read.
    flip_once(2);
    assert!(scrubbed(&bucket).is_clean());
    assert!(is_flipped.load(Ordering::SeqCst));
}

#[test]
fn a_store_in_trouble_says_nothing_about_the_log() {
    let bucket = archived("events", 600);
    let key = segment_key(&bucket, 1);
    let is_listed = Arc::new(AtomicBool::new(false));
    let after = Arc::clone(&is_listed);
    bucket.fail_when(move |call| {
        let is_down = call.key == key && after.load(Ordering::SeqCst);
        is_down.then_some(BucketFault::Before(ObjectErrorKind::Denied))
    });
    let report = scrubbed_while(&bucket, &LOOK, &mut |_| {
        is_listed.store(true, Ordering::SeqCst);
        ControlFlow::Continue(())
    });
    let report = report.unwrap();
    assert!(report.is_complete && !report.is_clean());
    assert!(report.findings.is_empty());
    let ids: Vec<_> = report.unreached.iter().map(|copy| copy.segment_id).collect();
    assert_eq!(ids, [1]);
    let refused = verified_while(&bucket, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(refused, AofError::Cold(_)), "{refused}");
}

#[test]
fn both_end_when_they_are_told_to_and_a_scrub_takes_a_part() {
    let bucket = archived("events", 600);
    let ended = verified_while(&bucket, &mut |_| ControlFlow::Break(()));
    assert!(matches!(ended, Err(AofError::Cancelled)));
    let ended = scrubbed_while(&bucket, &LOOK, &mut |_| ControlFlow::Break(())).unwrap();
    assert!(!ended.is_complete && ended.copies == 0);
    let some = ScrubOptions { segments: 1..3, ..LOOK };
    let report = scrubbed_while(&bucket, &some, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.segments, report.copies), (2, 2));
    for (options, named) in [
        (ScrubOptions::default(), "heal"),
        (ScrubOptions { cold: false, ..LOOK }, "tiers"),
        (ScrubOptions { bytes_per_second: Some(0), ..LOOK }, "bytes_per_second"),
    ] {
        match scrubbed_while(&bucket, &options, &mut |_| ControlFlow::Continue(())) {
            Err(AofError::InvalidConfig { field, .. }) => assert_eq!(field, named),
            other => panic!("{other:?}"),
        }
    }
}

/// `aof2 scrub s3://…` once made a log in a directory `s3:` and found it clean.
#[test]
fn whatever_needs_a_directory_refuses_an_address_and_creates_nothing() {
    let here = std::env::current_dir().unwrap();
    let bucket = archived("events", 10);
    let manager = manager(&bucket, tiers());
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    for address in ["s3://bucket/some/prefix/events", "s3:/bucket/events", "file:///tmp/events"] {
        let restored = restore_on(
            Arc::clone(&storage),
            Arc::new(bucket.clone()),
            &cold(),
            "events",
            address,
            &RestoreOptions::default(),
            &mut |_| ControlFlow::Continue(()),
        );
        let refusals = [
            Aof::open(AofConfig::new(address)).map(drop),
            manager.open(AofConfig::new(address)).map(drop),
            repair(address).map(drop),
            repair_with(&storage, &SystemClock, address, &mut |_| ControlFlow::Continue(()))
                .map(drop),
            verify(address).map(drop),
            AofReader::open(address).map(drop),
            compare_manifest(&storage, address).map(drop),
            restored.map(drop),
        ];
        for refused in refusals {
            match refused {
                Err(AofError::InvalidConfig { field: "path", reason }) => {
                    assert!(
                        reason.starts_with(address) && reason.contains("directory"),
                        "{reason}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
        for made in ["s3:", "file:"] {
            assert!(!here.join(made).exists(), "{made} was created");
        }
    }
}
