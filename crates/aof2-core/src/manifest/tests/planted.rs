//! Each planted bug is caught by the tests that guard its promise.

use std::time::Duration;

use super::{crash, damage, faults, matrix, torn, uploads, wakeups};
use crate::planted::{MANIFEST_BUGS, ManifestBug, plant_manifest, turn};

/// Runs the guard of a bug; an error means that it was caught.
fn guard(bug: ManifestBug) -> Result<(), String> {
    match bug {
        ManifestBug::LostWakeup => wakeups::waiters_wake(50, Duration::from_millis(300)),
        ManifestBug::KeepUncommittedTail => matrix::crash_on_commit(),
        ManifestBug::SkipChunkChecksum => damage::flips_are_reported(7),
        ManifestBug::HeaderBeforeData | ManifestBug::SealWithCommit => {
            torn::torn_headers_are_reconciled().map(drop)
        }
        ManifestBug::UploadFlagFirst => uploads::deleted_chunks_are_in_the_store(1),
        ManifestBug::TrustUploadFlag => uploads::a_false_mark_is_not_believed(),
        ManifestBug::IgnoreSyncError => faults::failed_sync_poisons(),
        ManifestBug::TrustPageCache => (0..4_000).try_for_each(faults::survive_one_fault),
        _ => crash::explore(1, 20_000).map(drop),
    }
}

#[test]
fn every_planted_bug_of_the_manifest_is_caught() {
    let _turn = turn();
    plant_manifest(None);
    for bug in MANIFEST_BUGS {
        plant_manifest(Some(bug));
        let caught = std::panic::catch_unwind(|| guard(bug));
        plant_manifest(None);
        match caught {
            Ok(Err(how)) => println!("{bug:?}: {}", how.chars().take(300).collect::<String>()),
            Err(_) => println!("{bug:?}: panicked"),
            Ok(Ok(())) => panic!("{bug:?} was not caught"),
        }
    }
}
