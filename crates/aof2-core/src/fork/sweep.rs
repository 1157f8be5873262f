//! Taking away what crashes and dropped logs left.
//!
//! A hold goes only if it is certain that nobody needs it: its time is over; it was never
//! confirmed and the fork is not there; its fork was dropped; or its snapshot is gone. A
//! confirmed hold whose fork cannot be found stays: the fork may have been moved away.

use std::path::{Path, PathBuf};

use super::dropping::{is_dropped, lock_writer};
use super::make::TEMPORARY_PREFIX;
use crate::error::{AofError, Result};
use crate::format::{Hold, HolderKind, SegmentId};
use crate::io::{EntryKind, Storage};
use crate::store::{
    Holds, Layout, ListedHolds, Listing, ORIGINS_DIR, dropped_dir, find_log, holds_log,
    load_lineage, normal, walk_logs,
};

/// What was taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Holds of forks and snapshots that do not exist.
    pub holds: usize,
    /// Segments of dropped logs that nobody reads.
    pub segments: usize,
    /// Directories of dropped logs and of forks that were never finished.
    pub directories: usize,
}

/// Sweeps a root.
pub(super) fn sweep(storage: &dyn Storage, root: &Path, now_ms: u64) -> Result<Swept> {
    let mut swept = Swept::default();
    let mut logs = dropped_logs(storage, root)?;
    walk_logs(storage, root, 0, &mut |dir| {
        logs.push(dir.to_owned());
        Ok(())
    })?;
    remove_unfinished(storage, root, 0, &mut swept)?;
    for dir in &logs {
        swept.holds += sweep_holds(storage, root, dir, now_ms)?;
    }
    for dir in dropped_logs(storage, root)? {
        let cleaned = clean_dropped(storage, &dir, now_ms)?;
        swept.segments += cleaned.segments;
        swept.directories += cleaned.directories;
    }
    Ok(swept)
}

pub(super) fn dropped_logs(storage: &dyn Storage, root: &Path) -> Result<Vec<PathBuf>> {
    let dir = root.join(ORIGINS_DIR);
    let entries = match storage.list(&dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(AofError::io("list directory", &dir))?,
    };
    let dirs = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
    let mut dirs: Vec<PathBuf> = dirs.map(|entry| dir.join(&entry.name)).collect();
    dirs.sort();
    Ok(dirs)
}

/// Forks that a crash cut off before they had their name.
fn remove_unfinished(
    storage: &dyn Storage,
    dir: &Path,
    depth: usize,
    swept: &mut Swept,
) -> Result<()> {
    let entries = match storage.list(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(AofError::io("list directory", dir))?,
    };
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::Directory) {
        let path = dir.join(&entry.name);
        if entry.name.starts_with(TEMPORARY_PREFIX) {
            match lock_writer(storage, &path) {
                Err(AofError::Locked { .. }) => {}
                Err(error) if !error.is_file_gone() => return Err(error),
                lock => {
                    remove_tree(storage, &path)?;
                    drop(lock);
                    swept.directories += 1;
                }
            }
        } else if !entry.name.starts_with('.') && depth < 6 {
            let segments = path.join("segments");
            if !storage.exists(&segments).map_err(AofError::io("look for", &segments))? {
                remove_unfinished(storage, &path, depth + 1, swept)?;
            }
        }
    }
    Ok(())
}

/// Takes away the holds of a log that nobody needs.
fn sweep_holds(storage: &dyn Storage, root: &Path, dir: &Path, now_ms: u64) -> Result<usize> {
    let layout = Layout::new(dir);
    let holds = Holds::of(storage, &layout);
    if holds.list()?.holds.is_empty() {
        return Ok(0);
    }
    // Nobody is in the middle of making a fork.
    let _lock = holds.lock()?;
    let mut released = 0;
    for hold in holds.list()?.holds {
        match verdict(storage, root, dir, &hold, now_ms)? {
            Verdict::Keep => {}
            Verdict::Confirm => holds.put(&Hold { is_pending: false, ..hold })?,
            Verdict::Release => {
                holds.release(&hold.file_name())?;
                released += 1;
            }
        }
    }
    Ok(released)
}

enum Verdict {
    Keep,
    Confirm,
    Release,
}

fn verdict(
    storage: &dyn Storage,
    root: &Path,
    dir: &Path,
    hold: &Hold,
    now_ms: u64,
) -> Result<Verdict> {
    if hold.expires_at_ms.is_some_and(|expires| expires <= now_ms) {
        return Ok(Verdict::Release);
    }
    let is_own = hold.kind == HolderKind::Snapshot && hold.holder == hold.origin;
    if is_own {
        // Nobody can name a snapshot of a dropped log.
        return Ok(if is_dropped(root, dir) { Verdict::Release } else { Verdict::Keep });
    }
    let was = normal(&dir.join(&hold.path));
    let found = match holds_log(storage, &was, hold.holder)? {
        true => Some(was),
        false => find_log(storage, root, hold.holder)?,
    };
    let exists = match (hold.kind, found) {
        (_, None) => {
            let dropped = dropped_dir(root, hold.holder);
            holds_log(storage, &dropped, hold.holder)?.then_some(false)
        }
        (HolderKind::Fork, Some(of)) => Some(inherits(storage, &of, hold)?),
        (HolderKind::Snapshot, Some(of)) => {
            let layout = Layout::new(of);
            let own = Holds::of(storage, &layout);
            Some(own.find(HolderKind::Snapshot, hold.holder, &hold.name)?.is_some())
        }
    };
    Ok(match exists {
        Some(true) if hold.is_pending => Verdict::Confirm,
        Some(true) => Verdict::Keep,
        Some(false) => Verdict::Release,
        None if hold.is_pending => Verdict::Release,
        None => Verdict::Keep,
    })
}

/// Whether a log still has what it is held for. A fork that was detached, or gave it up, may
/// have been cut off before it took its hold away.
fn inherits(storage: &dyn Storage, dir: &Path, hold: &Hold) -> Result<bool> {
    let layout = Layout::new(dir);
    let Some(identity) = layout.load_identity(storage)? else { return Ok(true) };
    let lineage = load_lineage(storage, &layout, &identity)?;
    Ok(lineage.is_some_and(|l| l.origins.iter().any(|origin| origin.origin == hold.origin)))
}

/// Removes what nobody reads of a dropped log: all of it, once nothing is held.
pub(super) fn clean_dropped(storage: &dyn Storage, dir: &Path, now_ms: u64) -> Result<Swept> {
    let layout = Layout::new(dir);
    let holds = Holds::of(storage, &layout);
    let segments = layout.segments_dir();
    let lock = match storage.exists(&segments).map_err(AofError::io("look for", &segments))? {
        true => Some(holds.lock()?),
        // Somebody was in the middle of removing it.
        false => None,
    };
    let listed = holds.list()?;
    if listed.holders(now_ms).is_empty() {
        remove_tree(storage, dir)?;
        drop(lock);
        return Ok(Swept { directories: 1, ..Swept::default() });
    }
    let segments = remove_unheld(storage, &layout, &listed, now_ms)?;
    Ok(Swept { segments, ..Swept::default() })
}

/// Removes segments that no hold covers. Those that are left need not be in one piece: only
/// forks read them, each what it holds.
fn remove_unheld(
    storage: &dyn Storage,
    layout: &Layout,
    listed: &ListedHolds,
    now_ms: u64,
) -> Result<usize> {
    let segments = layout.segments_dir();
    if !storage.exists(&segments).map_err(AofError::io("look for", &segments))? {
        return Ok(0);
    }
    let is_held = |id: SegmentId| !listed.holders_of(id, now_ms).is_empty();
    let listing = Listing::take(storage, layout)?;
    let mut removed = 0;
    for names in listing.segments.iter().filter(|names| !is_held(names.segment_id)) {
        for path in names.paths(layout) {
            storage.remove(&path).map_err(AofError::io("remove segment", &path))?;
        }
        removed += 1;
    }
    Ok(removed)
}

/// Removes a directory and all that is in it. A crash leaves some of it; the next sweep goes
/// on.
pub(super) fn remove_tree(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let entries = storage.list(dir).map_err(AofError::io("list directory", dir))?;
    for entry in entries {
        let path = dir.join(&entry.name);
        match entry.kind {
            EntryKind::Directory => remove_tree(storage, &path)?,
            _ => storage.remove(&path).map_err(AofError::io("remove", &path))?,
        }
    }
    storage.remove_dir(dir).map_err(AofError::io("remove directory", dir))
}
