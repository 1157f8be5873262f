//! A store that answers nobody, or not everybody, in the runtime's own time.

use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::object::sim::BucketCall;

const DOWN: Option<BucketFault> = Some(BucketFault::Before(ObjectErrorKind::Unavailable));

fn down(bucket: &SimBucket) {
    bucket.fail_when(|_| DOWN);
}

fn is_down(store: &ResilientStore) -> bool {
    store.metrics().down_since_ms.is_some()
}

#[test]
fn a_store_that_is_down_is_left_alone_and_found_again() {
    run(async {
        let bucket = SimBucket::new();
        down(&bucket);
        let config = ColdConfig { retries_max: 2, ..config() };
        let store = store_with(&bucket, &config);
        let error = store.head("a").await.unwrap_err();
        assert!(error.kind == ObjectErrorKind::Unavailable && error.is_outage(), "{error}");
        // Three tries, and the probe that decided.
        assert_eq!((bucket.calls(), is_down(&store)), (4, true));

        // Nothing is sent, and the error says why and how long.
        let error = store.head("b").await.unwrap_err();
        assert_eq!(bucket.calls(), 4);
        assert!(error.retry_after_ms.is_some_and(|ms| ms > 0 && ms <= config.probe_ms));
        assert!(error.is_retryable() && error.is_outage());
        assert!(error.detail.contains("head of \"a\" in the cold tier failed"), "{error}");

        // However many ask, one probe an interval is sent.
        for _ in 0..1_000 {
            advance(Duration::from_millis(100)).await;
            store.head("b").await.unwrap_err();
        }
        let probes = 100_000 / config.probe_ms;
        assert_eq!((bucket.calls(), store.metrics().probes), (4 + probes, 1 + probes));

        // A probe that is dropped without an answer decides nothing: the next one asks.
        advance(Duration::from_millis(config.probe_ms)).await;
        bucket.clear_faults();
        bucket.fail_at(bucket.calls(), BucketFault::HangBefore);
        let hanging = tokio::time::timeout(Duration::from_millis(1), store.head("a")).await;
        assert!(hanging.is_err() && is_down(&store));
        assert_eq!(store.head("a").await.unwrap(), None);
        assert!(!is_down(&store));
        assert_eq!(store.metrics().outages, 1);
    });
}

/// One bad object among others, and one that nobody else is asked about.
#[test]
fn an_object_that_fails_is_not_a_store_that_is_down() {
    run(async {
        let bucket = SimBucket::new();
        bucket.fail_when(|call: &BucketCall<'_>| DOWN.filter(|_| call.key == "logs/bad"));
        let store = store(&bucket);
        for _ in 0..20 {
            let error = put(&store, "logs/bad", &bytes(1)).await.unwrap_err();
            assert!(!error.is_outage() && !is_down(&store), "{error}");
            let (bad, good) = (bytes(1), bytes(2));
            let both = tokio::join!(put(&store, "logs/bad", &bad), put(&store, "logs/good", &good));
            assert!(both.0.is_err() && both.1.is_ok());
        }
        assert_eq!(store.metrics().outages, 0);
    });
}

#[test]
fn refusals_are_told_at_once_and_are_no_outage() {
    use ObjectErrorKind::{Denied, InvalidRequest, NoSuchBucket};
    for kind in [Denied, InvalidRequest, NoSuchBucket] {
        let bucket = SimBucket::new();
        bucket.fail_when(move |_| Some(BucketFault::Before(kind)));
        let store = store(&bucket);
        for _ in 0..20 {
            let error = run(put(&store, "logs/a", &bytes(1))).unwrap_err();
            assert!(error.kind == kind && !error.is_retryable() && !error.is_outage(), "{error}");
        }
        assert_eq!((bucket.calls(), store.metrics().outages), (20, 0));
    }
}

/// What stands before a store that is down often says "later" in its place.
#[test]
fn a_store_that_throttles_everybody_is_left_alone_too() {
    run(async {
        let bucket = SimBucket::new();
        bucket.fail_when(|_| Some(BucketFault::Before(ObjectErrorKind::Throttled)));
        let store = store(&bucket);
        assert!(store.head("a").await.unwrap_err().is_outage() && is_down(&store));
        // One that only asks for fewer requests is not.
        let bucket = SimBucket::new();
        bucket.fail_when(|call| {
            let is_late = call.index % 2 == 0;
            is_late.then_some(BucketFault::Before(ObjectErrorKind::Throttled))
        });
        let store = self::store(&bucket);
        for _ in 0..50 {
            store.head("a").await.unwrap();
        }
        assert_eq!(store.metrics().outages, 0);
    });
}

#[test]
fn reads_that_were_begun_outlast_an_outage_of_a_moment() {
    run(async {
        let bucket = SimBucket::new();
        let object = bytes(1000);
        bucket.insert("logs/a", object.clone(), meta(&object));
        let end = Instant::now() + Duration::from_millis(500);
        bucket.fail_when(move |_| DOWN.filter(|_| Instant::now() < end));
        let store = store(&bucket);
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let store = store.clone();
            readers.spawn(async move { store.get_range("logs/a", 0..1000).await });
        }
        // Enough of them to take it for down, whichever comes first.
        sleep(Duration::from_millis(1)).await;
        assert!(is_down(&store));
        let mut read = 0;
        while let Some(answer) = readers.join_next().await {
            read += usize::from(answer.unwrap().is_ok());
        }
        assert!(read >= config().breaker_failures as usize - 2, "{read} of 50");
        assert!(!is_down(&store));
    });
}

/// The parts that were sent before an outage are not sent again after it, although it is
/// longer than all tries of a request.
#[test]
fn an_upload_in_parts_goes_on_where_an_outage_stopped_it() {
    run(async {
        let bucket = SimBucket::new();
        let config = ColdConfig { concurrency_max: 1, ..config() };
        let (store, object) = (store_with(&bucket, &config), bytes(21 * MIB));
        let (begin, end) = (3, Instant::now() + Duration::from_secs(60));
        bucket.fail_when(move |call| DOWN.filter(|_| call.index > begin && Instant::now() < end));
        put(&store, "logs/a", &object).await.unwrap();
        assert_eq!(bucket.objects()["logs/a"].bytes, object);
        let metrics = store.metrics();
        assert_eq!(metrics.op(ObjectOp::MultipartBegin).requests, 1);
        let part = metrics.op(ObjectOp::MultipartPart);
        assert_eq!(part.requests - part.failures, 5);
        assert!(metrics.probes <= 65 && bucket.calls() <= 90, "{metrics:?}");
    });
}

/// A network that swallows packets must not hold the others up for as long as a request
/// may take, and a store that is only slow must be found.
#[test]
fn probes_are_given_more_time_until_the_slowest_store_is_found() {
    run(async {
        let bucket = SimBucket::new();
        bucket.fail_when(|_| Some(BucketFault::HangBefore));
        let config = ColdConfig { retries_max: 0, ..config() };
        let store = store_with(&bucket, &config);
        store.head("a").await.unwrap_err();
        let mut took = Vec::new();
        for _ in 0..6 {
            advance(Duration::from_millis(config.probe_ms)).await;
            let start = Instant::now();
            store.ask_if_due().await;
            took.push(start.elapsed().as_secs());
        }
        assert_eq!(took, [4, 8, 16, 30, 30, 30]);
    });
}
