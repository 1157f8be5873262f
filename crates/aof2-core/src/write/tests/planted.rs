//! Each planted bug is caught by the tests that guard its promise.

use std::time::Duration;

use super::{crash, damage, faults, wakeups};
use crate::planted::{BUGS, Bug, plant, turn};

/// Runs the guard of a bug; an error means that it was caught.
fn guard(bug: Bug) -> Result<(), String> {
    match bug {
        Bug::LostWakeup => wakeups::waiters_wake(50, Duration::from_millis(300)),
        Bug::TruncateDamage => damage::tail_damage_is_reported(false),
        Bug::SkipChecksums => damage::flips_are_reported(7),
        Bug::NoIdentityInChecksum => damage::other_streams_bytes_are_refused(),
        Bug::IgnoreSyncError => faults::failed_sync_poisons(),
        Bug::TrustPageCache => (0..2_000).try_for_each(faults::survive_one_fault),
        _ => crash::explore(1, 20_000).map(|_| ()),
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let _turn = turn();
    plant(None);
    for bug in BUGS {
        plant(Some(bug));
        let caught = std::panic::catch_unwind(|| guard(bug));
        plant(None);
        match caught {
            Ok(Err(how)) => println!("{bug:?}: {how}"),
            Err(_) => println!("{bug:?}: panicked"),
            Ok(Ok(())) => panic!("{bug:?} was not caught"),
        }
    }
}
