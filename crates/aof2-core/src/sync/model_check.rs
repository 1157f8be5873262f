//! Every interleaving of the wake-up and publication protocols, explored with
//! loom: `cargo test -p aof2-core --features model-check --lib model_check`.
//!
//! A thread that would sleep for ever is a deadlock, which loom reports. States
//! are relaxed atomics wherever the protocol itself must order them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;

use super::position::{Position, Watermark};
use super::wait::{Signal, WaitQueue};
use super::{AtomicU64, AtomicUsize, Mutex, Ordering, Thread, current, fence, park};

/// Explores with at most three preemptions: where all interleavings are too many.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

/// Runs a future on this thread; parks only after it said that it is pending.
fn run<T>(future: impl Future<Output = T>) -> T {
    let waker = waker();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// A state and those who wait for it.
#[derive(Default)]
struct Flag {
    raised: AtomicU64,
    queue: WaitQueue,
}

impl Flag {
    fn is_raised(&self) -> Option<()> {
        (self.raised.load(Ordering::Relaxed) > 0).then_some(())
    }

    fn raise(&self) {
        self.raised.fetch_add(1, Ordering::Relaxed);
        self.queue.notify();
    }
}

fn raiser(flag: &Arc<Flag>) -> thread::JoinHandle<()> {
    let flag = Arc::clone(flag);
    thread::spawn(move || flag.raise())
}

#[test]
fn a_thread_never_sleeps_through_a_change() {
    loom::model(|| {
        let flag = Arc::new(Flag::default());
        let raiser = raiser(&flag);
        flag.queue.wait(None, || flag.is_raised());
        raiser.join().unwrap();
    });
}

#[test]
fn a_task_never_sleeps_through_a_change() {
    loom::model(|| {
        let flag = Arc::new(Flag::default());
        let raiser = raiser(&flag);
        run(flag.queue.wait_async(|| flag.is_raised()));
        raiser.join().unwrap();
    });
}

#[test]
fn two_threads_both_wake() {
    bounded(|| {
        let flag = Arc::new(Flag::default());
        let other = {
            let flag = Arc::clone(&flag);
            thread::spawn(move || flag.queue.wait(None, || flag.is_raised()))
        };
        let raiser = raiser(&flag);
        flag.queue.wait(None, || flag.is_raised());
        assert!(other.join().unwrap().is_some());
        raiser.join().unwrap();
    });
}

#[test]
fn a_thread_and_a_task_both_wake() {
    bounded(|| {
        let flag = Arc::new(Flag::default());
        let other = {
            let flag = Arc::clone(&flag);
            thread::spawn(move || run(flag.queue.wait_async(|| flag.is_raised())))
        };
        let raiser = raiser(&flag);
        flag.queue.wait(None, || flag.is_raised());
        other.join().unwrap();
        raiser.join().unwrap();
    });
}

/// Each change wakes again: a waiter that slept once sleeps again safely.
#[test]
fn a_waiter_for_the_second_change_wakes() {
    bounded(|| {
        let flag = Arc::new(Flag::default());
        let raisers = [raiser(&flag), raiser(&flag)];
        let second = || (flag.raised.load(Ordering::Relaxed) == 2).then_some(());
        flag.queue.wait(None, second);
        for raiser in raisers {
            raiser.join().unwrap();
        }
    });
}

#[test]
fn a_future_dropped_while_registered_leaves_no_trace_and_others_wake() {
    bounded(|| {
        let flag = Arc::new(Flag::default());
        let raiser = raiser(&flag);
        {
            let waker = waker();
            let mut dropped = pin!(flag.queue.wait_async(|| flag.is_raised()));
            let _ = dropped.as_mut().poll(&mut Context::from_waker(&waker));
        }
        flag.queue.wait(None, || flag.is_raised());
        raiser.join().unwrap();
        assert!(flag.queue.is_idle(), "somebody is still registered");
    });
}

#[test]
fn a_signal_raised_after_it_was_seen_ends_the_wait() {
    loom::model(|| {
        let signal = Arc::new(Signal::default());
        let seen = signal.seen();
        let raiser = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.raise())
        };
        assert!(signal.wait(seen, None));
        raiser.join().unwrap();
    });
}

/// How a blocked append waits: note the version, try again, sleep on the version.
#[test]
fn work_announced_by_a_signal_is_always_found() {
    bounded(|| {
        let shared = Arc::new((AtomicU64::new(0), Signal::default()));
        let worker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.0.store(1, Ordering::Release);
                shared.1.raise();
            })
        };
        let (spare, signal) = &*shared;
        loop {
            let seen = signal.seen();
            if spare.load(Ordering::Acquire) == 1 {
                break;
            }
            run(signal.wait_async(seen));
        }
        worker.join().unwrap();
    });
}

/// A stream in miniature: a payload word per record, published by a watermark.
#[derive(Default)]
struct Published {
    payload: [AtomicU64; 2],
    watermark: Watermark,
}

impl Published {
    fn append_both(&self) {
        for (i, payload) in self.payload.iter().enumerate() {
            let count = i as u64 + 1;
            payload.store(count * 10, Ordering::Relaxed);
            self.watermark.advance(Position::from_u64(count * 100), count);
        }
    }

    fn check_payloads(&self, count: u64) {
        for i in 0..count {
            let payload = self.payload.get(i as usize).map(|p| p.load(Ordering::Relaxed));
            assert_eq!(payload, Some((i + 1) * 10), "a published record has no payload");
        }
    }
}

fn appender(stream: &Arc<Published>) -> thread::JoinHandle<()> {
    let stream = Arc::clone(stream);
    thread::spawn(move || stream.append_both())
}

#[test]
fn who_sees_the_position_sees_the_count_and_the_payload() {
    loom::model(|| {
        let stream = Arc::new(Published::default());
        let appender = appender(&stream);
        let position = stream.watermark.position().as_u64();
        let count = stream.watermark.count();
        assert!(count * 100 >= position, "position {position}, count {count}");
        stream.check_payloads(position / 100);
        appender.join().unwrap();
    });
}

#[test]
fn a_limit_names_exactly_the_records_before_its_position() {
    bounded(|| {
        let stream = Arc::new(Published::default());
        let appender = appender(&stream);
        let promised = stream.watermark.count();
        let (position, count) = stream.watermark.limit();
        assert!(count >= promised, "{promised} were promised, the limit says {count}");
        assert_eq!(position.as_u64(), count * 100);
        stream.check_payloads(count);
        appender.join().unwrap();
    });
}

#[test]
fn a_waiter_on_a_watermark_wakes_and_sees_what_it_waited_for() {
    bounded(|| {
        let stream = Arc::new(Published::default());
        let appender = appender(&stream);
        let position = stream.watermark.wait(None, || {
            let position = stream.watermark.position().as_u64();
            (position >= 200).then_some(position)
        });
        assert_eq!(position, Some(200));
        assert_eq!(stream.watermark.count(), 2);
        stream.check_payloads(2);
        appender.join().unwrap();
    });
}

/// `SharedMap` in miniature. The real one maps memory that loom does not know.
#[derive(Default)]
struct Map {
    first_word: AtomicU64,
    rest: [AtomicU64; 2],
    frontier: AtomicUsize,
}

impl Map {
    fn append(&self, first_word: Ordering) {
        for word in &self.rest {
            word.store(7, Ordering::Relaxed);
        }
        self.first_word.store(1, first_word);
        self.frontier.store(3, Ordering::Release);
    }

    fn check_record(&self) {
        assert_eq!(self.first_word.load(Ordering::Relaxed), 1);
        for word in &self.rest {
            assert_eq!(word.load(Ordering::Relaxed), 7, "a torn record was served");
        }
    }
}

fn map_with_appender(first_word: Ordering) -> (Arc<Map>, thread::JoinHandle<()>) {
    let map = Arc::new(Map::default());
    let writer = Arc::clone(&map);
    (map, thread::spawn(move || writer.append(first_word)))
}

#[test]
fn bytes_below_the_frontier_are_final() {
    loom::model(|| {
        let (map, appender) = map_with_appender(Ordering::Release);
        if map.frontier.load(Ordering::Acquire) >= 3 {
            map.check_record();
        }
        appender.join().unwrap();
    });
}

#[test]
fn another_process_that_sees_the_first_word_sees_the_record() {
    loom::model(|| {
        let (map, appender) = map_with_appender(Ordering::Release);
        if map.first_word.load(Ordering::Acquire) != 0 {
            map.check_record();
        }
        appender.join().unwrap();
    });
}

/// The models can fail: with a relaxed first word the record may be torn.
#[test]
#[should_panic(expected = "a torn record was served")]
fn a_relaxed_first_word_would_serve_torn_records() {
    loom::model(|| {
        let (map, appender) = map_with_appender(Ordering::Relaxed);
        if map.first_word.load(Ordering::Acquire) != 0 {
            map.check_record();
        }
        appender.join().unwrap();
    });
}

/// `WaitQueue` in miniature, with its two precautions switchable.
#[derive(Default)]
struct Careless {
    raised: AtomicU64,
    count: AtomicUsize,
    sleeper: Mutex<Option<Thread>>,
}

impl Careless {
    fn raise(&self, fenced: bool) {
        self.raised.store(1, Ordering::Relaxed);
        if fenced {
            fence(Ordering::SeqCst);
        }
        if self.count.load(Ordering::Relaxed) > 0 {
            let sleeper = self.sleeper.lock().take();
            if let Some(thread) = sleeper {
                thread.unpark();
            }
        }
    }

    fn wait(&self, fenced: bool, look_after_announcing: bool) {
        let mut ready = self.raised.load(Ordering::Relaxed) > 0;
        self.count.fetch_add(1, Ordering::Relaxed);
        *self.sleeper.lock() = Some(current());
        if fenced {
            fence(Ordering::SeqCst);
        }
        if look_after_announcing {
            ready = self.raised.load(Ordering::Relaxed) > 0;
        }
        while !ready {
            park();
            ready = self.raised.load(Ordering::Relaxed) > 0;
        }
    }
}

fn careless(fenced: bool, look_after_announcing: bool) {
    loom::model(move || {
        let queue = Arc::new(Careless::default());
        let waiter = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.wait(fenced, look_after_announcing))
        };
        queue.raise(fenced);
        waiter.join().unwrap();
    });
}

#[test]
fn the_miniature_with_both_precautions_is_right() {
    careless(true, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fences_a_wake_up_would_be_lost() {
    careless(false, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn looking_before_announcing_would_lose_a_wake_up() {
    careless(true, false);
}
