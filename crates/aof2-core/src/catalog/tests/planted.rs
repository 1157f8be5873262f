//! Each planted bug of the catalog is caught by the tests that guard its promise.

use super::driver::{one, open};
use super::{crash, feed, recovery, replay, versions};
use crate::error::AofError;
use crate::format::operation::{JobKind, OperationBody as B};
use crate::io::sim::SimStorage;
use crate::planted::{CATALOG_BUGS, CatalogBug, plant_catalog, turn};

/// A job that was enqueued before a restart is still the only one of its kind.
fn jobs_are_unique_across_restarts() -> Result<(), String> {
    let sim = SimStorage::new();
    let enqueue = B::EnqueueJob {
        job_id: 0,
        db_id: 0,
        kind: JobKind::Gc,
        payload: Vec::new(),
        not_before_ms: 0,
        attempts_max: 1,
    };
    let (mut engine, _) = open(&sim).map_err(|e| e.to_string())?;
    one(&mut engine, enqueue.clone()).map_err(|e| e.to_string())?;
    drop(engine);
    let (mut engine, _) = open(&sim).map_err(|e| e.to_string())?;
    match one(&mut engine, enqueue) {
        Err(AofError::JobPending { .. }) => Ok(()),
        other => Err(format!("a second job: {other:?}")),
    }
}

#[test]
fn a_job_is_unique_across_restarts() {
    jobs_are_unique_across_restarts().unwrap();
}

fn guard(bug: CatalogBug) -> Result<(), String> {
    match bug {
        CatalogBug::ApplyReadsClock => (0..5).try_for_each(replay::equal_from_anywhere),
        CatalogBug::TablesAheadOfLog | CatalogBug::GuardBeforeDurable => {
            recovery::a_failed_sync_is_not_shown()?;
            crash::explore(0..4)
        }
        CatalogBug::SlowerCursorTrimmed => feed::the_slowest_cursor_counts(),
        CatalogBug::UniqueJobInMemory => jobs_are_unique_across_restarts(),
        CatalogBug::VersionSkipped => versions::versions_are_not_skipped(),
        CatalogBug::CheckpointUnverified => recovery::a_bad_checkpoint_trims_nothing(),
    }
}

#[test]
fn every_planted_bug_of_the_catalog_is_caught() {
    let _turn = turn();
    plant_catalog(None);
    for bug in CATALOG_BUGS {
        plant_catalog(Some(bug));
        let caught = std::panic::catch_unwind(|| guard(bug));
        plant_catalog(None);
        match caught {
            Ok(Err(how)) => println!("{bug:?}: {how}"),
            Err(_) => println!("{bug:?}: panicked"),
            Ok(Ok(())) => panic!("{bug:?} was not caught"),
        }
        guard(bug).unwrap_or_else(|e| panic!("without {bug:?}: {e}"));
    }
}
