//! Waiters wake: also when the commit comes before they sleep.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::driver::{open_with, record_one};
use crate::error::AofError;
use crate::io::sim::SimStorage;
use crate::manifest::ManifestConfig;

/// One thread waits for each record to be committed, another makes it so and then waits
/// to hear that the first one woke. The waiter's own deadline lies beyond that patience,
/// so only a wake-up can be in time.
pub(super) fn waiters_wake(rounds: u64, patience: Duration) -> Result<(), String> {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, ManifestConfig::local()).map_err(|e| e.to_string())?;
    let manifest = Arc::new(manifest);
    let (woke, heard) = mpsc::channel();
    let waiter = {
        let manifest = Arc::clone(&manifest);
        std::thread::spawn(move || {
            for ordinal in 0..rounds {
                let waited = manifest.wait_committed(ordinal, Some(Instant::now() + patience * 2));
                if waited.is_err() || woke.send(ordinal).is_err() {
                    return;
                }
            }
        })
    };
    let mut outcome = Ok(());
    for ordinal in 0..rounds {
        record_one(&manifest).map_err(|e| e.to_string())?;
        manifest.commit().map_err(|e| e.to_string())?;
        if heard.recv_timeout(patience) != Ok(ordinal) {
            outcome = Err(format!("nobody woke the waiter for record {ordinal}"));
            break;
        }
    }
    drop(heard);
    waiter.join().map_err(|_| "waiter panicked".to_owned())?;
    outcome
}

#[test]
fn a_waiter_wakes_for_every_commit() {
    waiters_wake(500, Duration::from_secs(60)).unwrap();
}

#[test]
fn a_wait_ends_at_its_deadline_and_when_the_manifest_is_closed() {
    let sim = SimStorage::new();
    let manifest = open_with(&sim, ManifestConfig::local()).unwrap();
    record_one(&manifest).unwrap();
    let passed = Some(Instant::now());
    assert!(matches!(manifest.wait_committed(0, passed), Err(AofError::Timeout { .. })));
    manifest.close().unwrap();
    manifest.wait_committed(0, None).unwrap();
    assert!(matches!(manifest.wait_committed(1, None), Err(AofError::Closed)));
    assert!(matches!(record_one(&manifest), Err(AofError::Closed)));
}
