//! Sleepers wake: also when the notification comes before they sleep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::driver::open;
use crate::format::SegmentFormat;
use crate::io::sim::SimStorage;
use crate::log::stream::AppendOptions;

/// One thread waits for each record to become durable, another makes it so.
pub(super) fn waiters_wake(rounds: u64, patience: Duration) -> Result<(), String> {
    let sim = SimStorage::new();
    let stream = open(&sim, SegmentFormat::Full).map_err(|e| e.to_string())?;
    let waiter = {
        let stream = Arc::clone(&stream);
        std::thread::spawn(move || -> Result<(), String> {
            for target in 1..=rounds {
                let deadline = Some(Instant::now() + patience);
                let reached = || (stream.durable.count() >= target).then_some(());
                stream
                    .durable
                    .wait(deadline, reached)
                    .ok_or(format!("nobody woke the waiter for record {target}"))?;
            }
            Ok(())
        })
    };
    for _ in 0..rounds {
        loop {
            match stream.append_now(b"x", &AppendOptions::default()) {
                Ok(_) => break,
                Err(crate::AofError::WouldBlock(_)) => {
                    stream.prepare_step().map_err(|e| e.to_string())?;
                    stream.finalize_step().map_err(|e| e.to_string())?;
                }
                Err(e) => return Err(e.to_string()),
            }
        }
        stream.flush_until(stream.appended.position(), None).map_err(|e| e.to_string())?;
        if waiter.is_finished() {
            break;
        }
    }
    waiter.join().map_err(|_| "waiter panicked".to_owned())?
}

#[test]
fn a_waiter_wakes_for_every_record() {
    waiters_wake(2_000, Duration::from_secs(60)).unwrap();
}
