//! Each planted bug is caught by the tests that guard its promise.

use super::{cases, crash};
use crate::planted::{FORK_BUGS, ForkBug, plant_fork, turn};

/// Runs the guard of a bug; an error means that it was caught.
fn guard(bug: ForkBug) -> Result<(), String> {
    match bug {
        ForkBug::TailCutBelowHold => cases::a_hold_proves_what_was_durable(),
        ForkBug::StartNotRechecked => cases::a_start_that_moves_is_noticed(),
        ForkBug::ExpiryByLatestClock => cases::a_clock_that_ran_ahead_expires_nothing(),
        _ => crash::explore(1, 3_000),
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let _turn = turn();
    plant_fork(None);
    for bug in FORK_BUGS {
        plant_fork(Some(bug));
        let caught = std::panic::catch_unwind(|| guard(bug));
        plant_fork(None);
        match caught {
            Ok(Err(how)) => println!("{bug:?}: {how}"),
            Err(_) => println!("{bug:?}: panicked"),
            Ok(Ok(())) => panic!("{bug:?} was not caught"),
        }
    }
}
