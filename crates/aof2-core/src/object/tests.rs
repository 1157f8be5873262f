//! The resilient store over the model bucket: whatever fails, what was asked for is
//! done once.

mod outage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use secrecy::ExposeSecret;

use super::sim::{BucketFault, SimBucket};
use super::*;
use crate::error::AofError;
use crate::format::crc64;
use crate::format::manifest::ReasonCode;
use crate::io::sim::SimStorage;
use crate::io::{Clock, OpenMode, Storage};

const MIB: u64 = 1 << 20;

fn config() -> ColdConfig {
    ColdConfig { multipart_bytes: 5 * MIB, ..ColdConfig::new("s3://bucket/logs") }
}

fn store(bucket: &SimBucket) -> ResilientStore {
    store_with(bucket, &config())
}

fn store_with(bucket: &SimBucket, config: &ColdConfig) -> ResilientStore {
    let clock = Arc::new(RuntimeClock(tokio::time::Instant::now()));
    ResilientStore::with_seed(Arc::new(bucket.clone()), config, clock, 1).unwrap()
}

/// Time as the runtime has it, which a test may let jump.
#[derive(Debug)]
struct RuntimeClock(tokio::time::Instant);

impl Clock for RuntimeClock {
    fn now_ns(&self) -> u64 {
        1_700_000_000_000_000_000 + self.0.elapsed().as_nanos() as u64
    }

    fn ticks(&self) -> Option<u64> {
        None
    }
}

fn bytes(len: u64) -> Bytes {
    (0..len).map(|i| (i * 31 % 251) as u8).collect::<Vec<_>>().into()
}

fn meta(bytes: &Bytes) -> ObjectMeta {
    let user = BTreeMap::from([("aof2-segment-id".to_owned(), "7".to_owned())]);
    ObjectMeta { crc64nvme: crc64(bytes), user }
}

async fn put(store: &ResilientStore, key: &str, bytes: &Bytes) -> ObjectResult<PutOutcome> {
    store.put_new(key, bytes.clone().into(), &meta(bytes)).await
}

/// Runs with a clock that jumps to the next timer whenever everybody waits.
fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// The threads of a client that cannot be made end without a wait, which a task of a
/// runtime must not do.
#[test]
fn a_refused_configuration_is_an_error_in_an_async_task_too() {
    let refused = ColdConfig { concurrency_max: 0, ..config() };
    let opened = run(async move {
        let clock = Arc::new(RuntimeClock(tokio::time::Instant::now()));
        BlockingStore::new(Arc::new(SimBucket::new()), &refused, clock).err()
    });
    assert!(
        matches!(opened, Some(AofError::InvalidConfig { field: "concurrency_max", .. })),
        "{opened:?}"
    );
}

const FAULTS: [BucketFault; 12] = [
    BucketFault::Before(ObjectErrorKind::Unavailable),
    BucketFault::After(ObjectErrorKind::Unavailable),
    BucketFault::Before(ObjectErrorKind::Timeout),
    BucketFault::After(ObjectErrorKind::Timeout),
    BucketFault::Before(ObjectErrorKind::Throttled),
    BucketFault::Before(ObjectErrorKind::Corrupt),
    BucketFault::HangBefore,
    BucketFault::HangAfter,
    BucketFault::Truncate,
    BucketFault::Flip,
    BucketFault::Before(ObjectErrorKind::NotFound),
    BucketFault::Before(ObjectErrorKind::Denied),
];

/// Faults that the store takes for an answer.
fn is_final(fault: BucketFault) -> bool {
    matches!(fault, BucketFault::Before(ObjectErrorKind::NotFound | ObjectErrorKind::Denied))
}

#[test]
fn an_upload_is_there_once_whichever_request_fails_however_often() {
    for len in [0, 100, 11 * MIB] {
        let object = bytes(len);
        let clean = SimBucket::new();
        run(put(&store(&clean), "logs/a", &object)).unwrap();
        for fault in FAULTS.into_iter().filter(|&f| !is_final(f)) {
            for (first, count) in (0..clean.calls()).flat_map(|i| [(i, 1), (i, 2)]) {
                let bucket = SimBucket::new();
                (first..first + count).for_each(|call| bucket.fail_at(call, fault));
                let outcome = run(put(&store(&bucket), "logs/a", &object));
                let what = format!("{fault:?} from {first}, {count} times, {len} bytes");
                outcome.unwrap_or_else(|e| panic!("{what}: {e}"));
                let objects = bucket.objects();
                assert_eq!(objects.len(), 1, "{what}");
                assert_eq!(objects["logs/a"].bytes, object, "{what}");
                assert_eq!(objects["logs/a"].meta, meta(&object), "{what}");
                assert_eq!(bucket.uploads(), [], "{what}");
            }
        }
    }
}

#[test]
fn an_answer_that_was_lost_is_recognised_and_counted() {
    let bucket = SimBucket::new();
    bucket.fail_at(0, BucketFault::After(ObjectErrorKind::Unavailable));
    let store = store(&bucket);
    assert!(run(put(&store, "logs/a", &bytes(10))).unwrap().already_there);
    let metrics = store.metrics();
    assert_eq!(metrics.uploads_recognised, 1);
    assert_eq!(metrics.op(ObjectOp::Put).requests, 2);
    assert_eq!(metrics.op(ObjectOp::Put).retries, 1);
    assert_eq!(metrics.op(ObjectOp::Put).failures, 1);
    assert_eq!(metrics.op(ObjectOp::Head).requests, 1);
    assert_eq!((metrics.bytes_out, metrics.in_flight), (20, 0));
}

#[test]
fn other_bytes_under_the_key_are_never_replaced() {
    for len in [100, 6 * MIB] {
        let bucket = SimBucket::new();
        let other = bytes(len + 1);
        bucket.insert("logs/a", other.clone(), meta(&other));
        let error = run(put(&store(&bucket), "logs/a", &bytes(len))).unwrap_err();
        assert_eq!(error.kind, ObjectErrorKind::Exists);
        assert_eq!(bucket.objects()["logs/a"].bytes, other);
        assert_eq!(bucket.uploads(), []);
    }
}

#[test]
fn a_part_that_was_acknowledged_and_lost_is_found_out() {
    let bucket = SimBucket::new();
    let object = bytes(11 * MIB);
    let is_lost = std::sync::atomic::AtomicBool::new(true);
    bucket.fail_when(move |call| {
        let is_part = call.op == ObjectOp::MultipartPart;
        let is_first = is_part && is_lost.swap(false, std::sync::atomic::Ordering::Relaxed);
        is_first.then_some(BucketFault::Forget)
    });
    run(put(&store(&bucket), "logs/a", &object)).unwrap();
    assert_eq!(bucket.objects()["logs/a"].bytes, object);
    assert_eq!(bucket.uploads(), []);
}

#[test]
fn what_an_endpoint_does_not_check_is_read_back() {
    for len in [100, 6 * MIB] {
        for fault in [BucketFault::Flip, BucketFault::Truncate] {
            let bucket = SimBucket::with_capabilities(Capabilities::MINIMAL);
            let object = bytes(len);
            let is_first = std::sync::atomic::AtomicBool::new(true);
            bucket.fail_when(move |call| {
                let is_upload = matches!(call.op, ObjectOp::Put | ObjectOp::MultipartPart);
                let hit = is_upload && is_first.swap(false, std::sync::atomic::Ordering::Relaxed);
                hit.then_some(fault)
            });
            run(put(&store(&bucket), "logs/a", &object)).unwrap();
            assert_eq!(bucket.objects()["logs/a"].bytes, object, "{fault:?} {len}");
        }
    }
}

#[test]
fn reads_and_deletes_survive_every_fault() {
    let object = bytes(1000);
    for fault in FAULTS {
        let bucket = SimBucket::new();
        bucket.insert("logs/a", object.clone(), meta(&object));
        bucket.insert("logs/b", object.clone(), meta(&object));
        let store = store(&bucket);
        let fail = || {
            let next = bucket.calls();
            bucket.fail_at(next, fault);
        };
        // A range has no checksum of its own: its reader has.
        let is_silent = fault == BucketFault::Flip;
        let check = |what: &str, is_right: ObjectResult<bool>| match is_right {
            Ok(is_right) => assert!(is_right || is_silent, "{what} {fault:?}"),
            Err(error) => assert!(is_final(fault), "{what} {fault:?}: {error}"),
        };
        fail();
        check("range", run(store.get_range("logs/a", 10..20)).map(|b| b == object.slice(10..20)));
        fail();
        let suffix = run(store.get_suffix("logs/a", 10));
        check("suffix", suffix.map(|(b, len)| b == object.slice(990..) && len == 1000));
        fail();
        check("head", run(store.head("logs/a")).map(|h| h.unwrap().holds(1000, crc64(&object))));
        fail();
        check("list", run(store.list("logs/")).map(|entries| entries.len() == 2));
        fail();
        check("delete", run(store.delete("logs/a")).map(|()| true));
        if !is_final(fault) {
            assert_eq!(bucket.objects().into_keys().collect::<Vec<_>>(), ["logs/b"]);
        }
    }
}

#[test]
fn a_whole_object_is_checked_against_its_checksum() {
    let bucket = SimBucket::new();
    let object = bytes(1000);
    bucket.insert("logs/a", object.clone(), meta(&object));
    let store = store(&bucket);
    assert_eq!(run(read_whole(&store, "logs/a", 1000)).unwrap().1, object);
    let too_long = run(read_whole(&store, "logs/a", 999)).unwrap_err();
    assert_eq!(too_long.kind, ObjectErrorKind::InvalidRequest);
    assert!(bucket.damage("logs/a", 500, 4));
    let error = run(read_whole(&store, "logs/a", 1000)).unwrap_err();
    assert_eq!(error.kind, ObjectErrorKind::Corrupt);
    assert_eq!(run(read_whole(&store, "logs/x", 9)).unwrap_err().kind, ObjectErrorKind::NotFound);
}

#[test]
fn a_listing_has_all_pages_in_order() {
    let bucket = SimBucket::new();
    bucket.set_page_count(3);
    let keys: Vec<_> = (0..10).map(|i| format!("logs/{i}")).collect();
    keys.iter().for_each(|key| bucket.insert(key, bytes(1), ObjectMeta::default()));
    bucket.insert("other/0", bytes(1), ObjectMeta::default());
    let store = store(&bucket);
    let listed = run(store.list("logs/")).unwrap();
    assert_eq!(listed.into_iter().map(|entry| entry.key).collect::<Vec<_>>(), keys);
    assert_eq!(store.metrics().op(ObjectOp::List).requests, 4);
}

#[test]
fn uploads_that_nobody_finished_are_aborted_below_the_prefix_only() {
    let bucket = SimBucket::new();
    bucket.set_page_count(2);
    let store = store(&bucket);
    for key in ["logs/a", "logs/a", "logs/b", "other/c"] {
        run(store.multipart_begin(key, &ObjectMeta::default())).unwrap();
    }
    assert_eq!(run(store.abort_unfinished("logs/")).unwrap(), 3);
    assert_eq!(bucket.uploads().len(), 1);
    assert_eq!(bucket.uploads()[0].key, "other/c");
}

#[test]
fn every_operation_ends_by_its_deadline() {
    run(async {
        let bucket = SimBucket::new();
        bucket.fail_when(|_| Some(BucketFault::HangBefore));
        let config = ColdConfig { breaker_failures: 1000, retries_max: 100, ..config() };
        let store = store_with(&bucket, &config);
        let start = tokio::time::Instant::now();
        let error = store.get_range("logs/a", 0..1).await.unwrap_err();
        assert_eq!(error.kind, ObjectErrorKind::Timeout);
        assert!(start.elapsed() <= Duration::from_millis(config.operation_timeout_ms));
        assert!(bucket.calls() > 1);
    });
}

#[test]
fn requests_in_flight_are_bounded() {
    run(async {
        let bucket = SimBucket::new();
        bucket.fail_when(|_| Some(BucketFault::HangBefore));
        let config = ColdConfig { concurrency_max: 3, ..config() };
        let store = store_with(&bucket, &config);
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let store = store.clone();
            waiting.spawn(async move { store.head("logs/a").await });
        }
        while bucket.calls() < 3 {
            tokio::task::yield_now().await;
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((bucket.calls(), store.metrics().in_flight), (3, 3));
        drop(waiting);
        while store.metrics().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_file_is_uploaded_by_its_range_and_not_read_as_a_whole() {
    let storage = SimStorage::new();
    let path = std::path::Path::new("/warm.zst");
    let object = bytes(11 * MIB);
    let file = storage.create_new(path).unwrap();
    file.write_all_at(&object, 0).unwrap();
    let body = ObjectBody::file(&storage, path).unwrap();
    assert_eq!((body.len(), body.crc64().unwrap()), (11 * MIB, crc64(&object)));
    assert_eq!(body.slice(5..9).read().unwrap(), object.slice(5..9));
    assert_eq!(body.slice(11 * MIB - 1..u64::MAX).len(), 1);
    let bucket = SimBucket::new();
    run(store(&bucket).put_new("logs/a", body, &meta(&object))).unwrap();
    assert_eq!(bucket.objects()["logs/a"].bytes, object);
    drop(storage.open(path, OpenMode::Read).unwrap());
}

#[test]
fn a_power_cut_at_any_request_leaves_all_or_nothing_and_the_next_start_cleans_up() {
    let object = bytes(11 * MIB);
    let clean = SimBucket::new();
    run(put(&store(&clean), "logs/a", &object)).unwrap();
    for call in 0..clean.calls() {
        for is_carried_out in [false, true] {
            let bucket = SimBucket::new();
            if is_carried_out {
                bucket.crash_after(call)
            } else {
                bucket.crash_at(call)
            }
            let instant = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let seen = Arc::clone(&instant);
            bucket.on_crash(move || seen.store(true, std::sync::atomic::Ordering::Relaxed));
            let outcome = run(put(&store(&bucket), "logs/a", &object));
            assert!(bucket.is_crashed() && instant.load(std::sync::atomic::Ordering::Relaxed));
            assert!(outcome.is_err());

            let after = bucket.image();
            let objects = after.objects();
            assert!(objects.is_empty() || objects["logs/a"].bytes == object);
            let store = store(&after);
            run(store.abort_unfinished("logs/")).unwrap();
            assert_eq!(after.uploads(), []);
            let outcome = run(put(&store, "logs/a", &object)).unwrap();
            assert_eq!(outcome.already_there, !objects.is_empty());
            assert_eq!(after.objects()["logs/a"].bytes, object);
        }
    }
}

#[test]
fn reasons_are_what_the_manifest_records() {
    let reason = |kind| ObjectError::new(kind, ObjectOp::Put, "k", "").reason();
    assert_eq!(reason(ObjectErrorKind::Denied), ReasonCode(2));
    assert_eq!(reason(ObjectErrorKind::Unavailable), ReasonCode(3));
    assert_eq!(reason(ObjectErrorKind::NotFound), ReasonCode(4));
    assert_eq!(reason(ObjectErrorKind::Throttled), ReasonCode(0));
    assert_eq!(reason(ObjectErrorKind::Timeout), ReasonCode(0));
    assert_eq!(reason(ObjectErrorKind::Exists), ReasonCode(0));
}

#[test]
fn the_environment_overrides_the_configuration_and_secrets_are_not_shown() {
    let env = BTreeMap::from([
        ("AOF2_COLD_ENDPOINT", "https://minio.example:9000"),
        ("AOF2_COLD_REGION", "eu-central-1"),
        ("AOF2_COLD_PATH_STYLE", "false"),
        ("AOF2_COLD_SSE", "kms:alias/logs"),
        ("AOF2_COLD_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AOF2_COLD_SECRET_ACCESS_KEY", "verysecret"),
        ("AOF2_COLD_SESSION_TOKEN", "sessiontoken"),
        ("AOF2_COLD_SSE_KEY", ""),
    ]);
    let lookup = |name: &str| env.get(name).map(|&value| value.to_owned());
    let config = ColdConfig::new("s3://bucket/a/b/").with_lookup(&lookup).unwrap();
    config.validate().unwrap();
    assert_eq!(config.endpoint.as_deref(), Some("https://minio.example:9000"));
    assert_eq!(config.region.as_deref(), Some("eu-central-1"));
    assert!(!config.is_path_style());
    assert_eq!(config.sse, Sse::Kms { key_id: Some("alias/logs".to_owned()) });
    assert_eq!(config.sse.to_string().parse::<Sse>().unwrap(), config.sse);
    let location = config.location().unwrap();
    assert_eq!((location.bucket.as_str(), location.prefix.as_str()), ("bucket", "a/b"));
    assert_eq!(location.key("x"), "a/b/x");
    assert_eq!(location.to_string(), "s3://bucket/a/b");

    let secrets = ColdSecrets::from_lookup(&lookup);
    assert_eq!(secrets.access_key_id.as_ref().unwrap().expose_secret(), "AKIDEXAMPLE");
    assert!(secrets.sse_key.is_none());
    let shown = format!("{secrets:?} {config:?}");
    for secret in ["AKIDEXAMPLE", "verysecret", "sessiontoken"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn what_cannot_work_is_refused_before_it_is_tried() {
    let good = || ColdConfig::new("s3://bucket/logs");
    good().validate().unwrap();
    ColdConfig::new("s3://bucket").validate().unwrap();
    let endpoint = |endpoint: &str| ColdConfig { endpoint: Some(endpoint.to_owned()), ..good() };
    endpoint("http://127.0.0.1:8333").validate().unwrap();
    let metadata = |key: &str, value: &str| ColdConfig {
        metadata: BTreeMap::from([(key.to_owned(), value.to_owned())]),
        ..good()
    };
    metadata("team", "logs and more").validate().unwrap();
    let bad = [
        ColdConfig::new("bucket/logs"),
        ColdConfig::new("s3://"),
        ColdConfig::new("s3:///logs"),
        ColdConfig::new("s3://bucket//logs"),
        ColdConfig::new("s3://bucket/a/../b"),
        ColdConfig::new("s3://bucket/a\n"),
        ColdConfig::new("s3://buc ket/a"),
        endpoint("minio:9000"),
        endpoint("ftp://minio:9000"),
        endpoint("https://user:password@minio:9000"),
        ColdConfig { sse: Sse::Customer, ..endpoint("http://minio.example:9000") },
        metadata("Team", "x"),
        metadata("aof2-crc64nvme", "x"),
        metadata("team", "line\nbreak"),
        metadata("team", &"x".repeat(2000)),
        ColdConfig { multipart_bytes: 1, ..good() },
        ColdConfig { concurrency_max: 0, ..good() },
        ColdConfig { request_timeout_ms: 0, ..good() },
        ColdConfig { operation_timeout_ms: 1, ..good() },
        ColdConfig { backoff_ms: 0, ..good() },
        ColdConfig { backoff_ms_max: 1, ..good() },
        ColdConfig { breaker_failures: 0, ..good() },
        ColdConfig { retries_max: 1000, ..good() },
    ];
    for config in bad {
        let error = config.validate().expect_err(&format!("{config:?}"));
        assert!(!error.to_string().contains("password"), "{error}");
    }
    ColdConfig { sse: Sse::Customer, ..endpoint("http://127.0.0.1:8333") }.validate().unwrap();
    let lookup = |name: &str| (name == "AOF2_COLD_SSE").then(|| "c2VjcmV0".to_owned());
    let error = good().with_lookup(&lookup).unwrap_err();
    assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
}
