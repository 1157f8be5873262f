//! Each planted bug of names and writers is caught by the tests that guard its promise.

use super::writers;
use crate::planted::{TIER_BUGS, TierBug, plant_tier, turn};

/// Runs the guard of a bug; an error means that it was caught.
fn guard(bug: TierBug) -> Result<(), String> {
    match bug {
        TierBug::NameNotClaimed | TierBug::AdoptUnasked => writers::names_are_unique(),
        _ => (1..2_000).try_for_each(|seed| {
            writers::explore(seed).map_err(|error| {
                let first = error.lines().next().unwrap_or_default();
                format!("seed {seed}: {first}")
            })
        }),
    }
}

#[test]
fn every_planted_bug_is_caught() {
    let _turn = turn();
    plant_tier(None);
    for bug in TIER_BUGS {
        plant_tier(Some(bug));
        let caught = std::panic::catch_unwind(|| guard(bug));
        plant_tier(None);
        match caught {
            Ok(Err(how)) => println!("{bug:?}: {how}"),
            Err(_) => println!("{bug:?}: panicked"),
            Ok(Ok(())) => panic!("{bug:?} was not caught"),
        }
    }
}
