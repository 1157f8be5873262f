//! Dropping logs.

use std::path::{Path, PathBuf};

use super::make::create_dirs;
use super::sweep;
use crate::error::{AofError, Result};
use crate::format::{Hold, HolderKind, Lineage, StreamIdentity};
use crate::io::{LockError, LockGuard, Storage};
use crate::store::{Holds, Layout, dropped_dir, load_lineage, locate};

/// A log that is to be dropped: nobody writes it.
pub(super) struct Doomed<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) root: &'a Path,
    pub(super) dir: &'a Path,
    pub(super) identity: &'a StreamIdentity,
}

/// The right to write a log.
pub(super) fn lock_writer(storage: &dyn Storage, dir: &Path) -> Result<Box<dyn LockGuard>> {
    let path = Layout::new(dir).lock_file();
    storage.lock(&path).map_err(|e| match e {
        LockError::Held { pid } => AofError::Locked { path: dir.to_owned(), pid },
        LockError::Io(e) => AofError::io("lock", &path)(e),
    })
}

/// Where a fork's ancestors are, of those that can be found.
pub(super) fn origin_dirs(
    storage: &dyn Storage,
    dir: &Path,
    lineage: Option<&Lineage>,
) -> Result<Vec<PathBuf>> {
    let Some(lineage) = lineage else { return Ok(Vec::new()) };
    let dirs = lineage.origins.iter().map(|origin| locate(storage, dir, lineage, origin));
    dirs.filter_map(Result::transpose).collect()
}

impl Doomed<'_> {
    /// Drops the log. Its name is free, and what forks and snapshots read of it stays. With
    /// `if_unheld` it is dropped only if there are none.
    pub(super) fn drop_log(&self, if_unheld: bool, now_ms: u64) -> Result<Vec<String>> {
        let Self { storage, root, dir, identity } = *self;
        let _writer = lock_writer(storage, dir)?;
        let layout = Layout::new(dir);
        let lineage = load_lineage(storage, &layout, identity)?;
        let origins = origin_dirs(storage, dir, lineage.as_ref())?;
        let holds = Holds::of(storage, &layout);
        let lock = holds.lock()?;
        let listed = holds.list()?;
        let holders = listed.holders(now_ms);
        if if_unheld && !holders.is_empty() {
            return Err(AofError::Held { path: dir.to_owned(), holders });
        }
        let to = dropped_dir(root, identity.stream_id);
        let (from_parent, to_parent) = (dir.parent().unwrap_or(root), to.parent().unwrap_or(root));
        create_dirs(storage, to_parent)?;
        storage.rename(dir, &to).map_err(AofError::io("drop", dir))?;
        for parent in [to_parent, from_parent] {
            storage.sync_dir(parent).map_err(AofError::io("sync directory", parent))?;
        }
        drop(lock);
        // From here on it is dropped, and whoever sweeps goes on.
        let own = |hold: &&Hold| hold.holder == identity.stream_id;
        let snapshots: Vec<String> = listed.holds.iter().filter(own).map(Hold::file_name).collect();
        let file_name = Hold::file_name_of(HolderKind::Fork, identity.stream_id, "");
        release(storage, &origins, &[&snapshots[..], &[file_name]].concat())?;
        // Nobody can name its snapshots any more.
        release(storage, std::slice::from_ref(&to), &snapshots)?;
        let holders = Holds::of(storage, &Layout::new(&to)).list()?.holders(now_ms);
        sweep::clean_dropped(storage, &to, now_ms)?;
        for origin in origins {
            if is_dropped(root, &origin) {
                sweep::clean_dropped(storage, &origin, now_ms)?;
            }
        }
        Ok(holders)
    }
}

/// Whether a directory is one of a dropped log.
pub(super) fn is_dropped(root: &Path, dir: &Path) -> bool {
    dir.parent() == Some(&root.join(crate::store::ORIGINS_DIR))
}

/// Takes holds away that these logs have.
pub(super) fn release(
    storage: &dyn Storage,
    logs: &[PathBuf],
    file_names: &[String],
) -> Result<()> {
    for log in logs {
        let layout = Layout::new(log);
        let holds = Holds::of(storage, &layout);
        let _lock = holds.lock()?;
        for file_name in file_names {
            holds.release(file_name)?;
        }
    }
    Ok(())
}
