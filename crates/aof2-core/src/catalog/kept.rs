//! Which checkpoints are kept: the newest two that fit the operation log.
//!
//! A name says nothing about what is in a file. A checkpoint counts if all of it can be read
//! and what it includes is a prefix of the log; one that does not, because the log came back
//! from a backup, say, is renamed and never counted. The log is trimmed only behind two
//! checkpoints that were verified this way, so that either of them may be lost. A crash
//! leaves more checkpoints than needed.

use std::path::Path;

use super::checkpoint::{self, list, remove_if_there};
use super::database::Applied;
use super::layout::CatalogLayout;
use super::recover::{OperationLog, check_history};
use crate::error::{AofError, Result};
use crate::io::Storage;
use crate::planted::{self, CatalogBug};

/// Checkpoints that are kept.
pub(super) const KEPT: usize = 2;

/// A new checkpoint was written and read back. Verifies the ones before it until there are
/// enough, and removes what is older. Those that are kept, newest first.
pub(super) fn prune(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    log: &dyn OperationLog,
    written: u64,
) -> Result<Vec<u64>> {
    let directory = layout.checkpoints();
    let mut kept = Vec::new();
    let mut is_changed = false;
    for generation in list(storage, layout)? {
        let path = layout.checkpoint(generation);
        if kept.len() >= KEPT {
            remove_if_there(storage, &path)?;
            is_changed = true;
            continue;
        }
        let is_read =
            generation == written || planted::in_catalog(CatalogBug::CheckpointUnverified);
        let read = |path: &Path| match is_read {
            true => checkpoint::read_header(storage, path),
            false => checkpoint::read(storage, path, &mut |_, _, _| Ok(())),
        };
        match judge(log, generation, &path, read)? {
            Judged::Fits => kept.push(generation),
            Judged::Newer => {}
            Judged::Unfit(error) => {
                set_aside(storage, layout, generation, &error)?;
                is_changed = true;
            }
        }
    }
    if is_changed {
        storage.sync_dir(&directory).map_err(AofError::io("sync the checkpoints", &directory))?;
    }
    Ok(kept)
}

/// Sets aside the checkpoints that say themselves that they do not belong to this log.
pub(super) fn set_aside_unfit(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    log: &dyn OperationLog,
) -> Result<()> {
    let directory = layout.checkpoints();
    let mut is_changed = false;
    for generation in list(storage, layout)? {
        let path = layout.checkpoint(generation);
        let read = |path: &Path| checkpoint::read_header(storage, path);
        match judge(log, generation, &path, read) {
            Ok(Judged::Unfit(error)) => {
                set_aside(storage, layout, generation, &error)?;
                is_changed = true;
            }
            Ok(_) => {}
            // It is looked at again before it counts.
            Err(error) => tracing::warn!(%error, generation, "a checkpoint cannot be judged"),
        }
    }
    match is_changed {
        true => storage.sync_dir(&directory).map_err(AofError::io("sync", &directory)),
        false => Ok(()),
    }
}

enum Judged {
    Fits,
    /// A newer program wrote it. It is left alone, and not counted.
    Newer,
    Unfit(AofError),
}

/// An error that says nothing about the checkpoint is returned.
fn judge(
    log: &dyn OperationLog,
    generation: u64,
    path: &Path,
    read: impl FnOnce(&Path) -> Result<Applied>,
) -> Result<Judged> {
    let judged = read(path).and_then(|applied| {
        if applied.generation != Some(generation) {
            let reason = "it is named after another batch";
            return Err(super::replay::divergence(path, generation, reason));
        }
        check_history(log, &applied, path)
    });
    match judged {
        Ok(()) => Ok(Judged::Fits),
        Err(AofError::NewerVersion { .. }) => Ok(Judged::Newer),
        // Not if it is the log that cannot be read.
        Err(AofError::Corrupt(damage)) if damage.path == path => {
            Ok(Judged::Unfit(AofError::Corrupt(damage)))
        }
        Err(error) => Err(error),
    }
}

fn set_aside(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    generation: u64,
    error: &AofError,
) -> Result<()> {
    tracing::warn!(%error, generation, "a checkpoint of the catalog is set aside");
    let path = layout.checkpoint(generation);
    let aside = layout.unfit_checkpoint(generation);
    storage.rename(&path, &aside).map_err(AofError::io("set aside a checkpoint", &path))
}

/// Removes what a crash left of a checkpoint, or of tables that were made again.
pub(super) fn sweep(storage: &dyn Storage, layout: &CatalogLayout) -> Result<()> {
    remove_if_there(storage, &layout.unfinished_tables())?;
    let directory = layout.checkpoints();
    for entry in storage.list(&directory).unwrap_or_default() {
        if entry.name.ends_with(".tmp") {
            remove_if_there(storage, &directory.join(&entry.name))?;
        }
    }
    Ok(())
}
