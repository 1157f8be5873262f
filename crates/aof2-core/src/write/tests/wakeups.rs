//! Sleepers wake: also when the notification comes before they sleep.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::driver::open;
use crate::format::SegmentFormat;
use crate::io::sim::SimStorage;
use crate::write::AppendOptions;

/// One thread waits for each record to become durable, another makes it so and
/// then waits to hear that the first one woke. The waiter's own deadline lies
/// beyond that patience, so only a wake-up can be in time.
pub(super) fn waiters_wake(rounds: u64, patience: Duration) -> Result<(), String> {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).map_err(|e| e.to_string())?;
    let (woke, heard) = mpsc::channel();
    let waiter = {
        let stream = Arc::clone(&stream);
        std::thread::spawn(move || {
            for target in 1..=rounds {
                let deadline = Some(Instant::now() + patience * 2);
                let reached = || (stream.durable.count() >= target).then_some(());
                stream.durable.wait(deadline, reached);
                if woke.send(target).is_err() {
                    return;
                }
            }
        })
    };
    let mut outcome = Ok(());
    for target in 1..=rounds {
        stream.append_now(b"x", &AppendOptions::default()).map_err(|e| e.to_string())?;
        stream.flush_until(stream.appended.position(), None).map_err(|e| e.to_string())?;
        if heard.recv_timeout(patience) != Ok(target) {
            outcome = Err(format!("nobody woke the waiter for record {target}"));
            break;
        }
    }
    drop(heard);
    waiter.join().map_err(|_| "waiter panicked".to_owned())?;
    outcome
}

#[test]
fn a_waiter_wakes_for_every_record() {
    waiters_wake(1_000, Duration::from_secs(60)).unwrap();
}

/// An append that finds its segment full and without a name sleeps until it has one. A flush
/// may be the one that names it, and once did not say so: if the background came later, it
/// found nothing to do, and the append slept on.
#[test]
fn a_flush_that_names_a_segment_wakes_who_waits_for_the_name() {
    let stream = open(&SimStorage::new(), SegmentFormat::Full).unwrap();
    stream.append_now(b"first", &AppendOptions::default()).unwrap();
    let seen = stream.rollover.signal.seen();
    stream.flush_in_background().unwrap();
    assert_ne!(stream.rollover.signal.seen(), seen);
}
