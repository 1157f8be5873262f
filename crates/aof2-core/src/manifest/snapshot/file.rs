//! Snapshot files: written whole or not at all, believed only when every byte is right.
//!
//! A snapshot is an optimisation: the chunks can say all it says, as long as they are
//! there. So a snapshot that does not validate is passed over, not repaired, and nothing
//! older is removed before enough snapshots that do validate exist. Who removes chunks
//! must keep those that the oldest kept snapshot needs ([`SnapshotInfo::position`]).
//!
//! The writer of the manifest is the only one who writes or removes snapshots; anybody
//! may load them.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{AofError, Result};
use crate::format::manifest::{
    SNAPSHOT_LEN_MAX, SNAPSHOT_LEN_MIN, SnapshotFileName, SnapshotImage,
};
use crate::io::{EntryKind, OpenMode, Storage};
use crate::manifest::chunks::{ManifestLayout, ManifestPosition};

/// A snapshot that validates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The snapshot.
    pub snapshot_id: u64,
    /// Where replay goes on after it.
    pub position: ManifestPosition,
    /// Ordinal of the record there.
    pub next_record: u64,
}

impl SnapshotInfo {
    /// What is said of a snapshot.
    pub fn of(image: &SnapshotImage) -> Self {
        Self {
            snapshot_id: image.snapshot_id,
            position: ManifestPosition {
                chunk_index: image.chunk_index,
                chunk_offset: image.chunk_offset,
            },
            next_record: image.next_record,
        }
    }
}

/// A snapshot that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedSnapshot {
    /// The snapshot.
    pub snapshot_id: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// What pruning left and took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunedSnapshots {
    /// Snapshots that validate and stay, newest first.
    pub kept: Vec<SnapshotInfo>,
    /// Snapshots that do not validate and stay, because too few newer ones do.
    pub rejected: Vec<RejectedSnapshot>,
    /// Snapshots that were removed.
    pub removed: Vec<u64>,
}

/// Writes a snapshot: temporary name, sync, rename, sync of the directory. It is there
/// for good when this returns. A crash before that leaves all of it or a temporary file
/// that the next [`prune_snapshots`] removes.
pub fn write_snapshot(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    image: &SnapshotImage,
) -> Result<()> {
    let bytes = image.encode();
    let path = layout.snapshot_path(image.snapshot_id);
    if bytes.len() > SNAPSHOT_LEN_MAX {
        let reason = format!("a snapshot of {} bytes is longer than 1 GiB", bytes.len());
        let source = io::Error::new(io::ErrorKind::FileTooLarge, reason);
        return Err(AofError::io("write snapshot", &path)(source));
    }
    let temporary = temporary_path(layout, image.snapshot_id);
    remove_if_there(storage, &temporary)?;
    let file = storage.create_new(&temporary).map_err(AofError::io("create", &temporary))?;
    file.write_all_at(&bytes, 0).map_err(AofError::io("write", &temporary))?;
    file.sync().map_err(AofError::io("sync", &temporary))?;
    storage.rename(&temporary, &path).map_err(AofError::io("rename", &temporary))?;
    storage.sync_dir(layout.dir()).map_err(AofError::io("sync directory", layout.dir()))
}

/// Ids of the snapshot files there are, whatever is in them, in order.
pub fn list_snapshots(storage: &dyn Storage, layout: &ManifestLayout) -> Result<Vec<u64>> {
    Ok(list(storage, layout)?.snapshots)
}

/// The id that the next snapshot gets: larger than that of any file, damaged or half
/// written ones included, so that no id ever means two states.
pub fn next_snapshot_id(storage: &dyn Storage, layout: &ManifestLayout) -> Result<u64> {
    let found = list(storage, layout)?;
    let largest = found.snapshots.last().max(found.temporaries.last()).copied();
    Ok(largest.map_or(0, |id| id.saturating_add(1)))
}

/// Loads one snapshot and says what is wrong with it if it cannot be.
pub fn load_snapshot(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    snapshot_id: u64,
) -> Result<SnapshotImage, RejectedSnapshot> {
    let rejected = |reason: String| RejectedSnapshot { snapshot_id, reason };
    let bytes = read(storage, &layout.snapshot_path(snapshot_id))
        .map_err(|error| rejected(error.to_string()))?;
    let image = SnapshotImage::decode(&bytes).map_err(|error| rejected(error.to_string()))?;
    if image.snapshot_id != snapshot_id {
        return Err(rejected(format!("it says that it is snapshot {}", image.snapshot_id)));
    }
    Ok(image)
}

/// The newest snapshot that validates, and those that were passed over to get to it.
pub fn load_newest_snapshot(
    storage: &dyn Storage,
    layout: &ManifestLayout,
) -> Result<(Option<SnapshotImage>, Vec<RejectedSnapshot>)> {
    let mut rejected = Vec::new();
    for snapshot_id in list_snapshots(storage, layout)?.into_iter().rev() {
        match load_snapshot(storage, layout, snapshot_id) {
            Ok(image) => return Ok((Some(image), rejected)),
            Err(reason) => rejected.push(reason),
        }
    }
    Ok((None, rejected))
}

/// Removes snapshots that are older than the `keep` newest that validate, at least one,
/// and what crashes left behind of others. The oldest goes first, so that a crash in
/// between leaves the newest ones whichever removals it undoes.
pub fn prune_snapshots(
    storage: &dyn Storage,
    layout: &ManifestLayout,
    keep: usize,
) -> Result<PrunedSnapshots> {
    let found = list(storage, layout)?;
    let mut pruned = PrunedSnapshots::default();
    let mut older = found.snapshots.as_slice();
    while pruned.kept.len() < keep.max(1) {
        let Some((&snapshot_id, rest)) = older.split_last() else { break };
        match load_snapshot(storage, layout, snapshot_id) {
            Ok(image) => pruned.kept.push(SnapshotInfo::of(&image)),
            Err(rejected) => pruned.rejected.push(rejected),
        }
        older = rest;
    }
    for &snapshot_id in &found.temporaries {
        remove_if_there(storage, &temporary_path(layout, snapshot_id))?;
    }
    for &snapshot_id in older {
        remove_if_there(storage, &layout.snapshot_path(snapshot_id))?;
        pruned.removed.push(snapshot_id);
    }
    if !older.is_empty() || !found.temporaries.is_empty() {
        storage.sync_dir(layout.dir()).map_err(AofError::io("sync directory", layout.dir()))?;
    }
    Ok(pruned)
}

/// Snapshot files, finished and not, by id.
#[derive(Default)]
struct Found {
    snapshots: Vec<u64>,
    temporaries: Vec<u64>,
}

fn list(storage: &dyn Storage, layout: &ManifestLayout) -> Result<Found> {
    let entries = match storage.list(layout.dir()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Found::default()),
        listed => listed.map_err(AofError::io("list directory", layout.dir()))?,
    };
    let mut found = Found::default();
    for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
        if let Some(name) = SnapshotFileName::parse(&entry.name) {
            found.snapshots.push(name.snapshot_id);
        } else if let Some(name) = SnapshotFileName::parse_temporary(&entry.name) {
            found.temporaries.push(name.snapshot_id);
        }
    }
    found.snapshots.sort_unstable();
    found.temporaries.sort_unstable();
    Ok(found)
}

fn temporary_path(layout: &ManifestLayout, snapshot_id: u64) -> PathBuf {
    layout.dir().join(SnapshotFileName { snapshot_id }.format_temporary())
}

fn remove_if_there(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(AofError::io("remove", path)),
    }
}

/// The whole file, unless its length is one that no snapshot has: a hostile file must
/// not decide how much memory is taken.
fn read(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let file = storage.open(path, OpenMode::Read)?;
    let len = file.len()?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if !(SNAPSHOT_LEN_MIN..=SNAPSHOT_LEN_MAX).contains(&len) {
        let reason = format!("no snapshot has {len} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
