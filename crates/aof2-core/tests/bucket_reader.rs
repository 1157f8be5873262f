//! A reader with nothing but a bucket sees all that was archived, by the same calls as
//! one beside the writer, and asks for no more than it has to.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use aof2_core::object::sim::{BucketFault, SimBucket};
use aof2_core::object::{ObjectErrorKind, ObjectMeta};
use aof2_core::*;
use support::bucket::*;
use support::{PATIENCE, eventually};

fn open(bucket: &SimBucket, name: &str) -> Result<AofReader> {
    AofReader::open_bucket_on(Arc::new(bucket.clone()), &cold(), name)
}

#[test]
fn everything_archived_is_read_by_every_call() {
    let bucket = archived("events", 600);
    let reader = open(&bucket, "events").unwrap();
    assert_eq!(reader.name(), "events");
    assert_eq!(reader.stream_id(), stream_id(&bucket));
    assert_eq!(reader.root().to_str().unwrap(), "s3://bucket/some/prefix/events");
    let end = Watermarks { durable: 600, appended: 600, archived: 600 };
    assert_eq!(reader.watermarks().unwrap(), end);
    assert_eq!(reader.earliest_offset().unwrap(), 0);
    assert_eq!((reader.writer_pid(), reader.closed_cleanly()), (None, None));

    let segments = reader.segments().unwrap();
    assert_eq!(segments.len(), segment_keys(&bucket).len());
    assert!(segments.iter().all(|s| s.residency == Residency::Cold && s.damage.is_none()));
    assert!(segments.iter().all(|s| s.is_sealed && s.cold_bytes > Some(0)));
    assert_eq!(segments.iter().map(|s| s.record_count).sum::<u64>(), 600);
    assert_eq!(
        segments[0].path.to_str().unwrap(),
        format!("s3://bucket/{}", segment_keys(&bucket)[0])
    );

    check(reader.scan(ScanOptions::default()).unwrap(), 0..600);
    for offset in [0, 77, 300, 599] {
        let record = reader.read_offset(offset).unwrap();
        assert_eq!(&*record.payload, &payload(offset)[..]);
        assert_eq!(&*reader.read(record.id).unwrap().payload, &payload(offset)[..]);
        assert_eq!(reader.offset_at(1_000 + offset, Visibility::Durable).unwrap(), offset);
    }
    assert!(matches!(reader.read_offset(600), Err(AofError::PastEnd { end: 600, .. })));
    let from = ScanOptions { start: Start::Timestamp(1_450), ..Default::default() };
    check(reader.scan(from).unwrap(), 450..600);
    let batches = reader.scan(ScanOptions::default()).unwrap().next_batch().unwrap().unwrap();
    assert!(!batches.is_empty());
}

#[test]
fn opening_costs_a_name_a_listing_and_one_small_read_of_each_object() {
    let bucket = archived("events", 600);
    let objects = segment_keys(&bucket).len() as u64;
    let before = bucket.calls();
    let reader = open(&bucket, "events").unwrap();
    // The name is a look and a read.
    assert_eq!(bucket.calls() - before, 2 + 1 + objects);
    // Many questions at once are one look at most, and it fetches nothing known again.
    let before = bucket.calls();
    let started = Instant::now();
    for _ in 0..50 {
        reader.watermarks().unwrap();
        reader.segments().unwrap();
    }
    assert!(bucket.calls() - before <= 1 + started.elapsed().as_secs(), "a storm of requests");
}

#[test]
fn a_stream_is_found_by_its_id_too() {
    let bucket = archived("events", 300);
    let id = stream_id(&bucket).to_string();
    let reader = open(&bucket, &id).unwrap();
    assert_eq!((reader.name(), reader.stream_id()), ("events", stream_id(&bucket)));
    check(reader.scan(ScanOptions::default()).unwrap(), 0..300);
}

#[test]
fn a_missing_stream_is_named_with_what_is_there_instead() {
    let bucket = archived("events", 100);
    archive_more(&bucket, "other", 0..100);
    let error = open(&bucket, "evnts").unwrap_err();
    let AofError::NotALog { path, reason } = &error else { panic!("{error:?}") };
    assert_eq!(path.to_str().unwrap(), "s3://bucket/some/prefix/evnts");
    assert!(reason.contains("\"events\"") && reason.contains("\"other\""), "{reason}");
    let names: Vec<String> = archived_streams_on(Arc::new(bucket), &cold())
        .unwrap()
        .into_iter()
        .map(|stream| stream.name)
        .collect();
    assert_eq!(names, ["events", "other"]);

    let error = open(&SimBucket::new(), "events").unwrap_err();
    assert!(error.to_string().contains("no stream was archived below"), "{error}");
    for url in ["s3://", "s3://bucket", "s3://bucket/", "/some/path", "http://bucket/name"] {
        let error = AofReader::open_url(url).unwrap_err();
        assert!(matches!(error, AofError::InvalidConfig { field: "url", .. }), "{url}: {error:?}");
    }
}

#[test]
fn a_follower_sees_segments_that_are_archived_later() {
    let bucket = archived("events", 300);
    let reader = open(&bucket, "events").unwrap();
    let mut follow = reader.follow(ScanOptions::default()).unwrap();
    for i in 0..300 {
        assert_eq!(follow.next_record(Some(PATIENCE)).unwrap().unwrap().offset, i);
    }
    let before = bucket.calls();
    assert!(follow.next_record(Some(Duration::from_millis(20))).unwrap().is_none());
    assert!(bucket.calls() - before <= 1);
    archive_more(&bucket, "events", 300..500);
    for i in 300..500 {
        let record = follow.next_record(Some(PATIENCE)).unwrap().unwrap();
        assert_eq!((record.offset, &*record.payload), (i, &payload(i)[..]));
    }
    // And so does everybody else.
    assert_eq!(reader.watermarks().unwrap().durable, 500);
}

#[tokio::test]
async fn an_async_follower_sees_them_too() {
    let bucket = archived("events", 100);
    let reader = open(&bucket, "events").unwrap();
    let mut follow = reader.follow(ScanOptions::default()).unwrap();
    for i in 0..100 {
        assert_eq!(follow.next_record_async().await.unwrap().unwrap().offset, i);
    }
    let writer = bucket.clone();
    tokio::task::spawn_blocking(move || archive_more(&writer, "events", 100..150)).await.unwrap();
    assert_eq!(follow.next_record_async().await.unwrap().unwrap().offset, 100);
}

#[test]
fn another_look_fetches_the_ends_of_new_objects_only() {
    let bucket = archived("events", 300);
    let reader = open(&bucket, "events").unwrap();
    let known = segment_keys(&bucket).len() as u64;
    archive_more(&bucket, "events", 300..500);
    let new = segment_keys(&bucket).len() as u64 - known;
    let (before, started) = (bucket.calls(), Instant::now());
    eventually("all of it", || reader.watermarks().unwrap().durable >= 500);
    let looks = 1 + started.elapsed().as_secs();
    assert!(bucket.calls() - before <= new + looks, "known ends were fetched again");
    check(reader.scan(ScanOptions::default()).unwrap(), 0..500);
}

#[test]
fn the_latest_upload_of_a_segment_counts() {
    let bucket = archived("events", 300);
    let first = segment_keys(&bucket)[0].clone();
    let whole = bucket.objects()[&first].bytes.clone();
    bucket.insert(&first.replace("-00000100.zst", "-00000101.zst"), whole, ObjectMeta::default());
    // The earlier one is not even looked at.
    assert!(bucket.damage(&first, 200, 0xff));
    let reader = open(&bucket, "events").unwrap();
    check(reader.scan(ScanOptions::default()).unwrap(), 0..300);
    assert!(reader.segments().unwrap()[0].path.to_str().unwrap().ends_with("-00000101.zst"));
}

#[test]
fn a_missing_object_is_a_hole_and_the_rest_is_read() {
    let bucket = archived("events", 600);
    let keys = segment_keys(&bucket);
    assert!(keys.len() >= 4, "{keys:?}");
    assert!(bucket.remove(&keys[1]));
    let reader = open(&bucket, "events").unwrap();
    let segments = reader.segments().unwrap();
    let damage = segments[1].damage.clone().expect("the hole is told");
    assert_eq!(damage.reason, "the object is missing");
    assert!(damage.path.to_str().unwrap().starts_with("s3://bucket/some/prefix/"), "{damage}");
    assert_eq!(damage.records, segments[0].record_count..segments[2].first_offset);
    let lost = damage.records.start;
    assert!(matches!(reader.read_offset(lost), Err(AofError::Corrupt(_))));
    let error = reader.scan(ScanOptions::default()).unwrap().find_map(Result::err).unwrap();
    assert!(matches!(error, AofError::Corrupt(_)), "{error:?}");
    let behind = ScanOptions { start: Start::Offset(damage.records.end), ..Default::default() };
    check(reader.scan(behind).unwrap(), damage.records.end..600);
}

#[test]
fn what_is_not_a_segment_does_not_keep_the_rest_away() {
    let bucket = archived("events", 600);
    let keys = segment_keys(&bucket);
    let dir = keys[0].rsplit_once('/').unwrap().0;
    let junk = || bytes::Bytes::from_static(b"somebody else's");
    bucket.insert(&format!("{dir}/notes.txt"), junk(), ObjectMeta::default());
    bucket.insert(&format!("{dir}/1.zst"), junk(), ObjectMeta::default());
    // Under the key of a segment it is damage, not silence.
    let next = format!("{dir}/{:020}-00000100.zst", keys.len());
    bucket.insert(&next, junk(), ObjectMeta::default());
    let reader = open(&bucket, "events").unwrap();
    let segments = reader.segments().unwrap();
    assert_eq!(segments.len(), keys.len() + 1);
    assert!(segments.last().unwrap().damage.is_some());
    check(
        reader.scan(ScanOptions { end: End::Offset(600), ..Default::default() }).unwrap(),
        0..600,
    );
}

#[test]
fn what_retention_deleted_meanwhile_is_told_as_trimmed() {
    let bucket = archived("events", 600);
    let reader = open(&bucket, "events").unwrap();
    let first = reader.segments().unwrap()[1].first_offset;
    assert!(bucket.remove(&segment_keys(&bucket)[0]));
    eventually("the later beginning", || reader.earliest_offset().unwrap() == first);
    assert!(matches!(reader.read_offset(0), Err(AofError::Trimmed { .. })));
    check(reader.scan(ScanOptions::default()).unwrap(), first..600);
    assert_eq!(open(&bucket, "events").unwrap().earliest_offset().unwrap(), first);
}

#[test]
fn a_bucket_in_trouble_is_an_error_that_passes() {
    let bucket = archived("events", 300);
    bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Denied)));
    let error = open(&bucket, "events").unwrap_err();
    assert!(matches!(error, AofError::Cold(_)), "{error:?}");
    bucket.clear_faults();
    let reader = open(&bucket, "events").unwrap();
    bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Denied)));
    assert!(matches!(reader.read_offset(5), Err(AofError::Cold(_))));
    bucket.clear_faults();
    check(reader.scan(ScanOptions::default()).unwrap(), 0..300);
}

#[test]
fn a_stream_whose_identity_was_lost_is_still_read() {
    let bucket = archived("events", 300);
    let identity = bucket.objects().into_keys().find(|key| key.ends_with("/stream")).unwrap();
    assert!(bucket.remove(&identity));
    check(open(&bucket, "events").unwrap().scan(ScanOptions::default()).unwrap(), 0..300);
}

#[test]
fn a_listing_of_many_pages_is_one_look() {
    let bucket = archived("events", 600);
    bucket.set_page_count(2);
    let reader = open(&bucket, "events").unwrap();
    check(reader.scan(ScanOptions::default()).unwrap(), 0..600);
}
