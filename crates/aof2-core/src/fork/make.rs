//! Making a fork.

use std::path::{Path, PathBuf};

use super::cut::{Cut, ForkAt, find};
use super::shared::{Holder, Parent, Shared, hold_all, lock_all, logs_of};
use crate::error::{AofError, Result};
use crate::format::{HolderKind, Inheritance, Lineage, StreamId, StreamIdentity};
use crate::io::{Clock, LockError, Storage};
use crate::planted::{self, ForkBug};
use crate::store::{Layout, draw_id, normal, relative_path, store_lineage};

/// What directories are called while a fork is made.
pub(super) const TEMPORARY_PREFIX: &str = ".fork-";

/// A fork that was made.
pub(super) struct Made {
    pub(super) identity: StreamIdentity,
    pub(super) offset: u64,
}

/// Makes a log in `to` that begins with the parent's records up to the place.
pub(super) fn fork(
    parent: &Parent<'_>,
    clock: &dyn Clock,
    root: &Path,
    to: &Path,
    name: &str,
    at: &ForkAt,
) -> Result<Made> {
    let storage = parent.storage;
    let to = normal(to);
    if storage.exists(&to).map_err(AofError::io("look for", &to))? {
        return Err(taken(root, name));
    }
    let cut = find(parent.source, at)?;
    let shared = parent.shared_until(&cut)?;
    let stream_id = match planted::in_forks(ForkBug::IdReused) {
        true => parent.identity.stream_id,
        false => draw_id(storage, &to)?,
    };
    let now_ns = clock.now_ns();
    let holder = Holder {
        kind: HolderKind::Fork,
        id: stream_id,
        name,
        dir: &to,
        now_ms: now_ns / 1_000_000,
        expires_at_ms: None,
    };
    let _locks = lock_all(storage, logs_of(&shared))?;
    let late = planted::in_forks(ForkBug::HoldAfterChild);
    let mut placed = match late {
        true => None,
        false => Some(hold_all(storage, &shared, &holder)?),
    };
    let identity = StreamIdentity {
        stream_id,
        name: name.to_owned(),
        format: parent.identity.format,
        created_at_ns: now_ns,
        lineage: None,
    };
    let lineage = lineage_of(stream_id, root, &to, &cut, &shared);
    match create(storage, root, &to, identity, &lineage) {
        Ok(identity) => {
            if late {
                placed = Some(hold_all(storage, &shared, &holder)?);
            }
            if let Some(placed) = placed {
                placed.confirm(storage)?;
            }
            Ok(Made { identity, offset: cut.offset })
        }
        Err(error) => {
            // Whether the rename is on disk is not known after a failed sync: then the
            // holds stay, and the next sweep looks.
            if let Some(placed) = placed
                && !storage.exists(&to).unwrap_or(true)
            {
                placed.release(storage)?;
            }
            Err(error)
        }
    }
}

fn taken(root: &Path, name: &str) -> AofError {
    AofError::NameTaken {
        name: name.to_owned(),
        url: root.display().to_string(),
        holder: StreamId::from_u64(0),
        remedy: "choose another name, or drop what has it",
    }
}

fn lineage_of(
    stream_id: StreamId,
    root: &Path,
    to: &Path,
    cut: &Cut,
    shared: &[Shared],
) -> Lineage {
    let origins = shared
        .iter()
        .map(|shared| Inheritance { path: relative_path(to, &shared.dir), ..shared.part.clone() });
    Lineage {
        stream_id,
        root: relative_path(to, root),
        start: cut.start,
        origins: origins.collect(),
    }
}

/// The directory of the fork, complete and durable when it gets its name.
fn create(
    storage: &dyn Storage,
    root: &Path,
    to: &Path,
    identity: StreamIdentity,
    lineage: &Lineage,
) -> Result<StreamIdentity> {
    let parent = to.parent().unwrap_or(root);
    create_dirs(storage, parent)?;
    let temporary = temporary_dir(parent, identity.stream_id);
    let layout = Layout::new(&temporary);
    layout.ensure(storage)?;
    // Whoever sweeps leaves it alone as long as somebody works on it.
    let _lock = storage.lock(&layout.lock_file()).map_err(|e| match e {
        LockError::Held { pid } => AofError::Locked { path: temporary.clone(), pid },
        LockError::Io(e) => AofError::io("lock", &temporary)(e),
    })?;
    let checksum = store_lineage(storage, &layout, lineage)?;
    let identity = StreamIdentity { lineage: Some(checksum), ..identity };
    layout.store_identity(storage, &identity)?;
    if storage.exists(to).map_err(AofError::io("look for", to))? {
        return Err(taken(root, &identity.name));
    }
    storage.rename(&temporary, to).map_err(AofError::io("name the fork", to))?;
    storage.sync_dir(parent).map_err(AofError::io("sync directory", parent))?;
    Ok(identity)
}

pub(super) fn temporary_dir(parent: &Path, id: StreamId) -> PathBuf {
    parent.join(format!("{TEMPORARY_PREFIX}{id}"))
}

/// Creates a directory and what is missing above it, durably.
pub(super) fn create_dirs(storage: &dyn Storage, dir: &Path) -> Result<()> {
    if storage.exists(dir).map_err(AofError::io("look for", dir))? {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        create_dirs(storage, parent)?;
    }
    storage.create_dir_all(dir).map_err(AofError::io("create directory", dir))?;
    match dir.parent() {
        Some(parent) => storage.sync_dir(parent).map_err(AofError::io("sync directory", parent)),
        None => Ok(()),
    }
}
