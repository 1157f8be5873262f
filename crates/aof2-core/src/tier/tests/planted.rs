//! Each planted bug of the store, and of names and writers, is caught by the tests that
//! guard its promise.

use super::{archive, meanwhile, scrub, writers};
use crate::planted::{STORE_BUGS, StoreBug, TIER_BUGS, TierBug, plant_store, plant_tier, turn};

/// Runs histories until one is broken; the error says which.
fn hunt(mut explore: impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
    (1..2_000).try_for_each(|seed| {
        explore(seed).map_err(|error| {
            let first = error.lines().next().unwrap_or_default();
            format!("seed {seed}: {first}")
        })
    })
}

/// Runs the guard of a bug; an error, or a panic, means that it was caught.
fn guard(bug: TierBug) -> Result<(), String> {
    match bug {
        TierBug::NameNotClaimed | TierBug::AdoptUnasked => writers::names_are_unique(),
        _ => hunt(writers::explore),
    }
}

fn guard_store(bug: StoreBug) -> Result<(), String> {
    match bug {
        StoreBug::DeleteBeforeTombstone => archive::a_delete_is_durable_before_its_object_goes(),
        StoreBug::WarmGoneUnconfirmed => {
            archive::an_object_that_vanished_is_missed_before_its_file_goes();
        }
        StoreBug::BusyIgnored => meanwhile::one_change_of_a_segment_is_made_at_a_time(),
        // Every other step makes sure of the copy that is left by itself.
        StoreBug::LastCopyDropped => archive::the_last_copy_stays_in_every_tier(),
        StoreBug::DroppedUploadKept
        | StoreBug::FileGoneFirst
        | StoreBug::KeyReused
        | StoreBug::RecordBeforeSwitch => hunt(meanwhile::explore)?,
        StoreBug::EvictTrustsWarm | StoreBug::HydrationUnverified => {
            let mut tally = scrub::Tally::default();
            hunt(|seed| scrub::explore(seed, &mut tally))?;
        }
        _ => hunt(archive::explore)?,
    }
    Ok(())
}

/// What a test said that failed.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
    said.chars().take(300).collect()
}

/// Plants each bug, and says how it was caught.
fn catch_all<B: Copy + std::fmt::Debug + std::panic::RefUnwindSafe>(
    bugs: &[B],
    plant: fn(Option<B>),
    guard: fn(B) -> Result<(), String>,
) {
    let _turn = turn();
    plant(None);
    for &bug in bugs {
        plant(Some(bug));
        let caught = std::panic::catch_unwind(|| guard(bug));
        plant(None);
        match caught {
            Ok(Err(how)) => println!("{bug:?}: {how}"),
            Err(how) => println!("{bug:?}: {}", message(&*how)),
            Ok(Ok(())) => panic!("{bug:?} was not caught"),
        }
    }
}

#[test]
fn every_planted_bug_is_caught() {
    catch_all(&TIER_BUGS, plant_tier, guard);
}

#[test]
fn every_planted_bug_of_the_store_is_caught() {
    catch_all(&STORE_BUGS, plant_store, guard_store);
}
