//! Many threads and tasks on one log, cancelled futures, backpressure, closing in
//! the middle of things, and a model that everything readable is compared with.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use aof2_core::io::sim::{Fault, Op, SimStorage};
use aof2_core::*;
use proptest::prelude::*;
use tokio::runtime::{Builder, Runtime};

/// Matters only when something that must happen does not.
const PATIENCE: Duration = Duration::from_secs(60);

fn small(root: &Path) -> AofConfig {
    AofConfig::new(root).segment_bytes(64 << 10)
}

/// Flushes only when somebody asks, and blocks appends soon.
fn tight(root: &Path) -> AofConfig {
    let mut config = AofConfig::new(root).segment_bytes(1 << 20);
    config.flush =
        FlushConfig { flush_interval_ms: 0, flush_bytes: 4_000, max_unflushed_bytes: 4_000 };
    config
}

/// A runtime whose tasks never run: a log on it has no background work at all, so
/// that what blocks stays blocked until the test does something.
fn idle_runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this should have come long ago")
}

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> (Poll<F::Output>, Arc<CountWakes>) {
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    (future.poll(&mut Context::from_waker(&waker)), wakes)
}

fn numbered(thread: u64, sequence: u64) -> Vec<u8> {
    let mut payload = thread.to_le_bytes().to_vec();
    payload.extend_from_slice(&sequence.to_le_bytes());
    payload.resize(16 + (thread * 97 + sequence * 31) as usize % 600, 0xAB);
    payload
}

fn numbers(payload: &[u8]) -> (u64, u64) {
    let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
    let (thread, sequence) = (number(0), number(8));
    assert_eq!(payload, numbered(thread, sequence));
    (thread, sequence)
}

/// Offsets are 0..n, each thread's records in its order. Returns how many each has.
fn check_order(log: impl Iterator<Item = Result<Record>>, threads: usize) -> Vec<u64> {
    let mut next = vec![0; threads];
    for (i, record) in log.enumerate() {
        let record = record.unwrap();
        assert_eq!(record.offset, i as u64);
        let (thread, sequence) = numbers(&record.payload);
        assert_eq!(sequence, next[thread as usize], "thread {thread} at {i}");
        next[thread as usize] += 1;
    }
    next
}

fn blocked(log: &Aof) -> u64 {
    let mut appended = log.watermarks().appended;
    loop {
        match log.append_record(&[7; 500]) {
            Ok(_) => appended += 1,
            Err(AofError::WouldBlock(BackpressureKind::Flush)) => return appended,
            Err(error) => panic!("{error}"),
        }
    }
}

// ---- threads ----

#[test]
fn many_threads_append_and_flush_on_one_handle() {
    const THREADS: u64 = 12;
    const EACH: u64 = 1_500;
    let dir = tempfile::tempdir().unwrap();
    let log = Aof::open(small(&dir.path().join("log"))).unwrap();
    let offsets: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let log = &log;
                scope.spawn(move || {
                    let mut offsets = Vec::new();
                    for sequence in 0..EACH {
                        let payload = numbered(thread, sequence);
                        let appended = log
                            .append_record_with_timeout(
                                &payload,
                                &AppendOptions::default(),
                                PATIENCE,
                            )
                            .unwrap();
                        offsets.push(appended.offset);
                        if sequence % 100 == thread {
                            log.flush_until(appended.id, Some(PATIENCE)).unwrap();
                            assert!(log.watermarks().durable > appended.offset);
                            let read = log.read_offset(appended.offset).unwrap();
                            assert_eq!((read.id, &*read.payload), (appended.id, &payload[..]));
                        }
                    }
                    offsets
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    log.flush().unwrap();
    for own in &offsets {
        assert!(own.is_sorted());
    }
    let mut all: Vec<u64> = offsets.into_iter().flatten().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..THREADS * EACH), "offsets are exactly 0..n");
    let counts = check_order(log.scan(ScanOptions::default()).unwrap(), THREADS as usize);
    assert!(counts.iter().all(|&n| n == EACH));
    assert!(log.metrics().rollovers > 10);
}

/// Everyone appends, then everyone flushes: one sync serves them all.
#[test]
fn one_sync_serves_all_who_wait_for_it() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let mut config = AofConfig::new(dir.path().join("log")).segment_bytes(4 << 20);
    config.flush.flush_interval_ms = 0;
    let log = Aof::open(config).unwrap();
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, barrier) = (&log, &barrier);
            scope.spawn(move || {
                for sequence in 0..ROUNDS {
                    log.append(&numbered(thread, sequence)).unwrap();
                    barrier.wait();
                    log.flush().unwrap();
                    assert!(log.watermarks().durable >= (sequence + 1) * THREADS);
                    barrier.wait();
                }
            });
        }
    });
    let metrics = log.metrics();
    assert_eq!(metrics.durable_records, THREADS * ROUNDS);
    assert!(metrics.flushes <= ROUNDS, "{} syncs in {ROUNDS} rounds", metrics.flushes);
    println!("{} syncs for {} callers", metrics.flushes, THREADS * ROUNDS);
}

/// A count that was seen is a count that can be read, from any thread, at once.
#[test]
fn what_the_watermark_counts_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let log = Aof::open(small(&dir.path().join("log"))).unwrap();
    let end = 3_000;
    std::thread::scope(|scope| {
        for visibility in [Visibility::Appended, Visibility::Durable] {
            let log = &log;
            scope.spawn(move || {
                let level = match visibility {
                    Visibility::Appended => Level::Appended,
                    Visibility::Durable => Level::Durable,
                };
                let mut seen = 0;
                while seen < end {
                    assert!(log.wait(level, seen + 1, Some(PATIENCE)).unwrap());
                    let marks = log.watermarks();
                    seen = match visibility {
                        Visibility::Appended => marks.appended,
                        Visibility::Durable => marks.durable,
                    };
                    let record = log.read_offset_with(seen - 1, visibility).unwrap();
                    assert_eq!(numbers(&record.payload), (0, seen - 1));
                }
            });
        }
        for i in 0..end {
            log.append(&numbered(0, i)).unwrap();
            if i % 16 == 15 {
                log.flush().unwrap();
            }
        }
        log.flush().unwrap();
    });
}

#[test]
fn closing_while_threads_append_loses_nothing_acknowledged() {
    const THREADS: u64 = 6;
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("log");
    for round in 0..10u64 {
        let _ = std::fs::remove_dir_all(&root);
        let log = Aof::open(small(&root)).unwrap();
        let progress = AtomicU64::new(0);
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (log, progress) = (log.clone(), &progress);
                    scope.spawn(move || append_until_closed(&log, thread, progress))
                })
                .collect();
            // Somewhere in the middle: after some appends, not after some time.
            while progress.load(Ordering::Relaxed) < round * 300 + 1 {
                std::thread::yield_now();
            }
            log.close().unwrap();
            assert!(log.is_closed());
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(matches!(log.flush(), Ok(()) | Err(AofError::Closed)));
        assert!(matches!(log.read_offset(0), Err(AofError::Closed)));
        assert!(matches!(log.seal(), Err(AofError::Closed)));
        log.close().expect("closing twice is fine");
        drop(log);
        let log = Aof::open(small(&root)).unwrap();
        let counts = check_order(log.scan(ScanOptions::default()).unwrap(), THREADS as usize);
        assert_eq!(counts, acknowledged, "exactly what was acknowledged is there");
    }
}

/// Returns how many appends were acknowledged.
fn append_until_closed(log: &Aof, thread: u64, progress: &AtomicU64) -> u64 {
    let options = AppendOptions::default();
    for sequence in 0.. {
        let payload = numbered(thread, sequence);
        let appended = match thread % 3 {
            0 => log.append(&payload).map(|_| ()),
            1 => log.append_record_with_timeout(&payload, &options, PATIENCE).map(|_| ()),
            _ => log.append_batch_with_timeout(&[payload], &options, None).map(|_| ()),
        };
        match appended {
            Ok(()) => progress.fetch_add(1, Ordering::Relaxed),
            Err(AofError::Closed) => return sequence,
            Err(error) => panic!("a closed log answered {error}"),
        };
    }
    unreachable!()
}

#[test]
fn a_follower_gets_the_rest_and_then_the_end_when_the_log_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for waits_already in [true, false] {
        let log = Aof::open(small(&dir.path().join(format!("log-{waits_already}")))).unwrap();
        let mut follow = log.follow(ScanOptions::default()).unwrap();
        log.append(b"first").unwrap();
        log.flush().unwrap();
        assert_eq!(follow.next_record(Some(PATIENCE)).unwrap().unwrap().offset, 0);
        let close = || {
            log.append(b"last").unwrap();
            log.close().unwrap();
        };
        if waits_already {
            std::thread::scope(|scope| {
                let follower = scope.spawn(|| follow.next_record(Some(PATIENCE)).unwrap());
                close();
                assert_eq!(follower.join().unwrap().unwrap().offset, 1);
            });
        } else {
            close();
            assert_eq!(follow.next_record(Some(PATIENCE)).unwrap().unwrap().offset, 1);
        }
        assert!(follow.next_record(Some(PATIENCE)).unwrap().is_none());
        assert!(follow.next_record(None).unwrap().is_none(), "and again");
    }
}

// ---- backpressure ----

#[test]
fn an_append_that_times_out_wrote_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let idle = idle_runtime();
    let log =
        AofManager::on_runtime(idle.handle().clone()).open(tight(&dir.path().join("log"))).unwrap();
    let before = blocked(&log);
    assert!(before > 0);
    for timeout in [Duration::ZERO, Duration::from_millis(5)] {
        let refused = log.append_record_with_timeout(&[1; 500], &AppendOptions::default(), timeout);
        assert!(matches!(refused, Err(AofError::Timeout { .. })), "{refused:?}");
        let refused =
            log.append_batch_with_timeout(&[[1; 500]], &AppendOptions::default(), Some(timeout));
        assert!(matches!(refused, Err(AofError::Timeout { .. })), "{refused:?}");
    }
    assert_eq!(log.watermarks().appended, before);
    log.flush().unwrap();
    assert_eq!(log.append_record(&[2; 500]).unwrap().offset, before);
    assert_eq!(log.watermarks().appended, before + 1);
}

#[test]
fn a_future_waiting_for_room_wakes_when_there_is_room_or_never_will_be() {
    type End = fn(&Aof);
    type Expected = fn(&Result<Appended>) -> bool;
    let ends: [(End, Expected); 2] = [
        (|log| log.flush().unwrap(), |r| r.is_ok()),
        (|log| log.close().unwrap(), |r| matches!(r, Err(AofError::Closed))),
    ];
    for (end, expected) in ends {
        let dir = tempfile::tempdir().unwrap();
        let idle = idle_runtime();
        let manager = AofManager::on_runtime(idle.handle().clone());
        let log = manager.open(tight(&dir.path().join("log"))).unwrap();
        let before = blocked(&log);
        let options = AppendOptions::default();
        let mut waiting = pin!(log.append_record_async(&[3; 500], &options));
        let (polled, wakes) = poll_once(waiting.as_mut());
        assert!(polled.is_pending());
        let thread = {
            let log = log.clone();
            std::thread::spawn(move || log.append(&[4; 500]))
        };
        end(&log);
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "woken once, by the event itself");
        let result = runtime().block_on(in_time(waiting));
        assert!(expected(&result), "{result:?}");
        let threads = thread.join().unwrap();
        assert_eq!(threads.is_ok(), result.is_ok(), "{threads:?}");
        assert_eq!(log.watermarks().appended, before + if result.is_ok() { 2 } else { 0 });
    }
}

#[test]
fn waiters_wake_when_the_log_is_poisoned() {
    let sim = SimStorage::new();
    let storage: Arc<dyn io::Storage> = Arc::new(sim.clone());
    let config = ManagerConfig::for_one_stream();
    let manager = AofManager::on(config, storage, Arc::new(sim.clock().clone())).unwrap();
    let log = manager.open(tight(Path::new("/log"))).unwrap();
    let id = log.append(&[1; 500]).unwrap();
    log.flush().unwrap();
    sim.fail_when(|call| (call.op == Op::MapSync).then_some(Fault::Os(5)));
    let is_poisoned = |error: Option<AofError>| {
        assert!(matches!(error, Some(AofError::Poisoned { .. })), "{error:?}");
    };
    let rt = runtime();
    let (append, wait, flush) = rt.block_on(in_time(async {
        let fill = async {
            loop {
                if let Err(error) =
                    log.append_record_async(&[2; 500], &AppendOptions::default()).await
                {
                    return error;
                }
            }
        };
        tokio::join!(fill, log.wait_async(Level::Durable, 1_000_000), async {
            loop {
                // Nothing to flush yet is fine.
                if let Err(error) = log.flush_async().await {
                    return error;
                }
                tokio::task::yield_now().await;
            }
        })
    }));
    is_poisoned(Some(append));
    is_poisoned(wait.err());
    is_poisoned(Some(flush));
    is_poisoned(log.append(b"more").err());
    is_poisoned(log.seal().err());
    assert_eq!(&*log.read(id).unwrap().payload, &[1; 500], "reads go on");
    assert!(log.metrics().poisoned);
}

// ---- tasks ----

#[test]
fn tasks_append_flush_and_follow_on_the_callers_runtime() {
    const TASKS: u64 = 8;
    const EACH: u64 = 500;
    let dir = tempfile::tempdir().unwrap();
    let rt = runtime();
    let manager = AofManager::on_runtime(rt.handle().clone());
    let root = dir.path().join("log");
    let log = manager.open(small(&root)).unwrap();
    rt.block_on(in_time(async {
        let mut follow = log.follow(ScanOptions::default()).unwrap();
        let reader = AofReader::open(&root).unwrap();
        let mut elsewhere = reader.follow(ScanOptions::default()).unwrap().until_closed();
        let follower = tokio::spawn(async move {
            let mut records = Vec::new();
            while let Some(record) = follow.next_record_async().await.unwrap() {
                records.push(Ok(record));
            }
            records
        });
        let other = tokio::spawn(async move {
            let mut count = 0;
            while let Some(batch) = elsewhere.next_batch_async().await.unwrap() {
                count += batch.len() as u64;
            }
            count
        });
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let log = log.clone();
                tokio::spawn(async move {
                    for sequence in 0..EACH {
                        let options = AppendOptions::default();
                        let payload = numbered(task, sequence);
                        let appended = log.append_record_async(&payload, &options).await.unwrap();
                        if sequence % 50 == 0 {
                            log.flush_until_async(appended.id).await.unwrap();
                            assert!(log.watermarks().durable > appended.offset);
                        }
                    }
                    log.flush_async().await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        log.wait_async(Level::Durable, TASKS * EACH).await.unwrap();
        let closing = log.clone();
        tokio::task::spawn_blocking(move || closing.close().unwrap()).await.unwrap();
        let records = follower.await.unwrap();
        assert_eq!(records.len() as u64, TASKS * EACH);
        check_order(records.into_iter(), TASKS as usize);
        assert_eq!(other.await.unwrap(), TASKS * EACH);
    }));
}

#[test]
fn a_cancelled_append_wrote_nothing_or_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let idle = idle_runtime();
    let log =
        AofManager::on_runtime(idle.handle().clone()).open(tight(&dir.path().join("log"))).unwrap();
    let options = AppendOptions::default();
    // Never polled.
    drop(log.append_record_async(b"never", &options));
    assert_eq!(log.watermarks().appended, 0);
    let before = blocked(&log);
    // Polled and refused for now, then dropped.
    for _ in 0..3 {
        let mut waiting = Box::pin(log.append_record_async(&[5; 500], &options));
        assert!(poll_once(waiting.as_mut()).0.is_pending());
        drop(waiting);
        let mut waiting = Box::pin(log.append_batch_async(&[[5; 300], [6; 300]], &options));
        assert!(poll_once(waiting.as_mut()).0.is_pending());
    }
    assert_eq!(log.watermarks().appended, before);
    // Dropped after it was woken, before it looked again.
    let mut woken = Box::pin(log.append_record_async(&[5; 500], &options));
    let (polled, wakes) = poll_once(woken.as_mut());
    assert!(polled.is_pending());
    log.flush().unwrap();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    drop(woken);
    assert_eq!(log.watermarks().appended, before);
    // A select whose other branch is ready: whoever says it won is right.
    let rt = runtime();
    let mut written = 0;
    for i in 0..200u64 {
        let won = rt.block_on(async {
            let payload = i.to_le_bytes();
            tokio::select! {
                appended = log.append_record_async(&payload, &options) => Some(appended.unwrap()),
                () = std::future::ready(()) => None,
            }
        });
        if let Some(appended) = won {
            assert_eq!(appended.offset, before + written);
            written += 1;
        }
        assert_eq!(log.watermarks().appended, before + written);
        log.flush().unwrap();
    }
    assert!(written > 0 && written < 200, "a fair select takes either branch");
    // Cancelled flushes and waits leave nothing behind either.
    log.append(b"not durable").unwrap();
    for _ in 0..3 {
        let mut flush = Box::pin(log.flush_async());
        assert!(poll_once(flush.as_mut()).0.is_pending());
        let mut wait = Box::pin(log.wait_async(Level::Durable, u64::MAX));
        assert!(poll_once(wait.as_mut()).0.is_pending());
    }
    log.flush().unwrap();
    assert_eq!(log.watermarks().durable, before + written + 1);
}

#[test]
fn a_cancelled_follow_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let idle = idle_runtime();
    let root = dir.path().join("log");
    let log = AofManager::on_runtime(idle.handle().clone()).open(tight(&root)).unwrap();
    let mut follow = log.follow(ScanOptions::default()).unwrap();
    for i in 0..50u64 {
        {
            let mut next = Box::pin(follow.next_record_async());
            assert!(poll_once(next.as_mut()).0.is_pending());
        }
        log.append(&numbered(0, i)).unwrap();
        log.flush().unwrap();
        let next = pin!(follow.next_record_async());
        match poll_once(next).0 {
            Poll::Ready(Ok(Some(record))) => assert_eq!(record.offset, i),
            other => panic!("{other:?}"),
        }
    }
}

// ---- managers ----

#[test]
fn one_manager_runs_fifty_streams_and_closes_them_all() {
    const STREAMS: u64 = 50;
    let dir = tempfile::tempdir().unwrap();
    let manager = AofManager::new(ManagerConfig {
        worker_threads: 2,
        blocking_threads_max: 4,
        ..ManagerConfig::default()
    })
    .unwrap();
    let logs: Vec<Aof> = (0..STREAMS)
        .map(|i| manager.open(small(&dir.path().join(format!("s{i}")))).unwrap())
        .collect();
    assert_eq!(manager.open_streams(), 50);
    std::thread::scope(|scope| {
        for part in logs.chunks(13) {
            scope.spawn(move || {
                for sequence in 0..400 {
                    for log in part {
                        log.append(&numbered(0, sequence)).unwrap();
                    }
                }
            });
        }
    });
    // Background flushes reach all of them, with nobody asking.
    for log in &logs {
        assert!(log.wait(Level::Durable, 400, Some(PATIENCE)).unwrap());
    }
    for log in &logs {
        log.append(&numbered(0, 400)).unwrap();
    }
    logs[7].close().unwrap();
    assert_eq!(manager.open_streams(), 49);
    manager.shutdown().unwrap();
    assert_eq!(manager.open_streams(), 0);
    for log in &logs {
        assert!(log.is_closed());
        assert!(matches!(log.append(b"late"), Err(AofError::Closed)));
    }
    drop(logs);
    for i in 0..STREAMS {
        let reader = AofReader::open(dir.path().join(format!("s{i}"))).unwrap();
        assert_eq!(reader.closed_cleanly(), Some(true));
        assert_eq!(check_order(reader.scan(ScanOptions::default()).unwrap(), 1), [401]);
    }
}

#[test]
fn managers_and_logs_may_be_dropped_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let rt = runtime();
    // Inside a task of another runtime, and of the runtime it runs on.
    for own in [true, false] {
        let root = dir.path().join(format!("own-{own}"));
        let manager = match own {
            true => AofManager::new(ManagerConfig::default()).unwrap(),
            false => AofManager::on_runtime(rt.handle().clone()),
        };
        let log = manager.open(small(&root)).unwrap();
        let task = rt.spawn(async move {
            for i in 0..300 {
                let options = AppendOptions::default();
                log.append_record_async(&numbered(0, i), &options).await.unwrap();
            }
            drop(manager);
            log.flush_async().await.unwrap();
            log.append(&numbered(0, 300)).unwrap();
            drop(log);
        });
        rt.block_on(in_time(task)).expect("no panic");
        let reader = AofReader::open(&root).unwrap();
        assert_eq!(check_order(reader.scan(ScanOptions::default()).unwrap(), 1), [301]);
    }
    // The log keeps its manager's runtime alive.
    let root = dir.path().join("outlives");
    let manager = AofManager::new(ManagerConfig::default()).unwrap();
    let log = manager.open(small(&root)).unwrap();
    drop(manager);
    for i in 0..1_000 {
        log.append(&numbered(0, i)).unwrap();
    }
    assert!(log.wait(Level::Durable, 1_000, Some(PATIENCE)).unwrap());
}

// ---- the model ----

#[derive(Clone, Debug)]
enum Step {
    Append { payload: Vec<u8>, timestamp_ms: Option<u64>, flags: u32 },
    Batch { lens: Vec<usize>, timestamp_ms: u64 },
    Flush,
    Seal,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![8 => 1usize..200, 3 => 200usize..6_000, 1 => 6_000usize..40_000];
    let payload =
        (len, any::<u8>()).prop_map(|(n, b)| (0..n).map(|i| b.wrapping_add(i as u8)).collect());
    let timestamp = prop_oneof![3 => Just(None), 7 => (0u64..200).prop_map(Some)];
    let step = prop_oneof![
        20 => (payload, timestamp, 0u32..4)
            .prop_map(|(payload, timestamp_ms, flags)| Step::Append { payload, timestamp_ms, flags }),
        6 => (prop::collection::vec(1usize..2_000, 0..12), 0u64..200)
            .prop_map(|(lens, timestamp_ms)| Step::Batch { lens, timestamp_ms }),
        3 => Just(Step::Flush),
        1 => Just(Step::Seal),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Clone, Debug, PartialEq)]
struct Known {
    id: RecordId,
    /// What the caller gave; otherwise what the log answered.
    timestamp_ms: Option<u64>,
    flags: u32,
    payload: Vec<u8>,
}

struct Checked {
    log: Aof,
    root: std::path::PathBuf,
    records: Vec<Known>,
}

impl Checked {
    fn apply(&mut self, step: Step) {
        let compact = self.log.format() == SegmentFormat::Compact;
        match step {
            Step::Append { payload, timestamp_ms, flags } => {
                let flags = if compact { 0 } else { flags };
                let options = AppendOptions { timestamp_ms, flags: RecordFlags::from_bits(flags) };
                let appended =
                    self.log.append_record_with_timeout(&payload, &options, PATIENCE).unwrap();
                assert_eq!(appended.offset, self.records.len() as u64);
                self.records.push(Known { id: appended.id, timestamp_ms, flags, payload });
            }
            Step::Batch { lens, timestamp_ms } => {
                let payloads: Vec<Vec<u8>> = lens.iter().map(|&n| vec![n as u8; n]).collect();
                let timestamp_ms = Some(timestamp_ms);
                let options = AppendOptions { timestamp_ms, ..Default::default() };
                let batch = self
                    .log
                    .append_batch_with_timeout(&payloads, &options, Some(PATIENCE))
                    .unwrap();
                assert_eq!(batch.first_offset, self.records.len() as u64);
                assert_eq!(batch.ids.len(), payloads.len());
                self.records.extend(
                    batch.ids.into_iter().zip(payloads).map(|(id, payload)| Known {
                        id,
                        timestamp_ms,
                        flags: 0,
                        payload,
                    }),
                );
            }
            Step::Flush => self.log.flush().unwrap(),
            Step::Seal => self.log.seal().unwrap(),
            Step::Reopen => {
                self.log.close().unwrap();
                self.log = Aof::open(small(&self.root)).unwrap();
            }
        }
    }

    /// Fills in the timestamps that the log chose, and checks everything else.
    fn check_whole(&mut self) {
        let all = ScanOptions { visibility: Visibility::Appended, ..Default::default() };
        let found: Vec<Record> = self.log.scan(all).unwrap().map(|r| r.unwrap()).collect();
        assert_eq!(found.len(), self.records.len());
        for (i, (record, known)) in found.iter().zip(&mut self.records).enumerate() {
            assert_eq!(record.offset, i as u64);
            known.timestamp_ms.get_or_insert(record.timestamp_ms);
            assert_eq!(*known, as_known(record));
        }
    }

    fn check_lookups(&self) {
        for (i, known) in self.records.iter().enumerate() {
            assert_eq!(as_known(&self.log.read_offset(i as u64).unwrap()), *known);
            assert_eq!(self.log.read(known.id).unwrap().offset, i as u64);
        }
        let end = self.records.len() as u64;
        let past = self.log.read_offset(end);
        assert!(matches!(past, Err(AofError::PastEnd { end: e, .. }) if e == end), "{past:?}");
    }

    fn first_at(&self, ms: u64) -> usize {
        let at = self.records.iter().position(|r| r.timestamp_ms >= Some(ms));
        at.unwrap_or(self.records.len())
    }

    fn check_timestamps(&self, reader: &AofReader) {
        for ms in [0, 1, 50, 100, 150, 199, 200, u64::MAX] {
            let expected = self.first_at(ms) as u64;
            assert_eq!(self.log.offset_at(ms, Visibility::Durable).unwrap(), expected, "at {ms}");
            assert_eq!(reader.offset_at(ms, Visibility::Durable).unwrap(), expected, "at {ms}");
        }
    }

    fn check_range(&self, reader: &AofReader, from: (u8, usize), to: (u8, usize)) {
        let n = self.records.len();
        let (from, to) = ((from.0, from.1 % (n + 1)), (to.0, to.1 % (n + 1)));
        let (start, first) = match from.0 % 3 {
            0 => (Start::Offset(from.1 as u64), from.1),
            1 if from.1 < n => (Start::Id(self.records[from.1].id), from.1),
            1 => (Start::Latest, n),
            _ => (Start::Timestamp(from.1 as u64), self.first_at(from.1 as u64)),
        };
        let rest = &self.records[first..];
        let (end, count) = match to.0 % 3 {
            0 => (End::Offset(to.1 as u64), to.1.saturating_sub(first)),
            1 if to.1 < n => (End::Id(self.records[to.1].id), to.1.saturating_sub(first)),
            1 => (End::Visible, rest.len()),
            _ => {
                let ms = Some(to.1 as u64);
                let at = rest.iter().position(|r| r.timestamp_ms >= ms);
                (End::Timestamp(to.1 as u64), at.unwrap_or(rest.len()))
            }
        };
        let expected = &rest[..count];
        let options = ScanOptions { start, end, batch_records: 7, ..Default::default() };
        let single: Vec<Known> =
            self.log.scan(options).unwrap().map(|r| as_known(&r.unwrap())).collect();
        assert_eq!(single, expected, "{options:?}");
        let mut scan = reader.scan(options).unwrap();
        let mut batched = Vec::new();
        while let Some(batch) = scan.next_batch().unwrap() {
            assert!(batch.len() <= 7 && !batch.is_empty());
            batched.extend((0..batch.len()).map(|i| as_known(&batch.get(i).unwrap())));
        }
        assert_eq!(batched, expected, "{options:?}");
    }
}

fn as_known(record: &Record) -> Known {
    Known {
        id: record.id,
        timestamp_ms: Some(record.timestamp_ms),
        flags: record.flags.bits(),
        payload: record.payload.to_vec(),
    }
}

fn cases() -> u32 {
    std::env::var("AOF2_MODEL_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..Default::default() })]

    #[test]
    fn everything_readable_is_what_the_model_says(
        compact in any::<bool>(),
        steps in steps(),
        ranges in prop::collection::vec((any::<(u8, usize)>(), any::<(u8, usize)>()), 12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("log");
        let format = if compact { SegmentFormat::Compact } else { SegmentFormat::Full };
        let log = Aof::open(small(&root).format(format)).unwrap();
        let mut checked = Checked { log, root: root.clone(), records: Vec::new() };
        for step in steps {
            checked.apply(step);
        }
        checked.check_whole();
        checked.log.flush().unwrap();
        checked.check_lookups();
        let reader = AofReader::open(&root).unwrap();
        checked.check_timestamps(&reader);
        for (from, to) in ranges {
            checked.check_range(&reader, from, to);
        }
    }
}

/// A scrape of the metrics once held the append lock while it asked the manifest, which asks
/// for the append lock: appends, background work and the scrape then waited for each other
/// for ever.
#[test]
fn metrics_are_read_while_the_manifest_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = small(&dir.path().join("log"));
    config.manifest_mode = manifest::ManifestMode::Enabled;
    let log = Aof::open(config).unwrap();
    let (done, ended) = std::sync::mpsc::channel();
    for reads_metrics in [true, false] {
        let (log, done) = (log.clone(), done.clone());
        std::thread::spawn(move || {
            for _ in 0..5_000 {
                match reads_metrics {
                    true => drop(log.metrics()),
                    false => drop(log.record_event(None, 1, b"event").unwrap()),
                }
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        ended.recv_timeout(PATIENCE).expect("metrics and manifest wait for each other");
    }
    log.close().unwrap();
}
