//! Making a fork.

use std::path::{Path, PathBuf};

use super::cut::{Cut, ForkAt, find};
use super::shared::{Holder, Parent, Shared, hold_all, lock_all, logs_of};
use super::sweep::remove_tree;
use crate::error::{AofError, Result};
use crate::format::{
    HolderKind, Inheritance, Lineage, StreamId, StreamIdentity, WatermarkBody, WatermarkHeader,
    WatermarkState,
};
use crate::io::{Clock, LockError, Storage};
use crate::planted::{self, ForkBug};
use crate::store::{Layout, WatermarkPublisher, draw_id, normal, relative_path, write_lineage};
use crate::sync::Position;

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
        false => Some(hold_all(parent, &shared, &holder)?),
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
                placed = Some(hold_all(parent, &shared, &holder)?);
            }
            if let Some(placed) = placed {
                placed.confirm(storage)?;
            }
            Ok(Made { identity, offset: cut.offset })
        }
        Err(error) => {
            // Whether the rename is on disk is not known after a failed sync: then the
            // holds stay, and the next sweep looks.
            let is_another = matches!(error, AofError::NameTaken { .. });
            if let Some(placed) = placed
                && (is_another || !storage.exists(&to).unwrap_or(true))
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
    for dir in [layout.segments_dir(), layout.archive_dir()] {
        storage.create_dir_all(&dir).map_err(AofError::io("create directory", &dir))?;
    }
    // Whoever sweeps leaves it alone as long as somebody works on it.
    let _lock = storage.lock(&layout.lock_file()).map_err(|e| match e {
        LockError::Held { pid } => AofError::Locked { path: temporary.clone(), pid },
        LockError::Io(e) => AofError::io("lock", &temporary)(e),
    })?;
    let checksum = write_lineage(storage, &layout, lineage)?;
    let identity = StreamIdentity { lineage: Some(checksum), ..identity };
    store_watermark(storage, &layout, &identity, lineage)?;
    // Syncs the directory, too: all that is in it by now is durable.
    layout.store_identity(storage, &identity)?;
    let named = match storage.exists(to).map_err(AofError::io("look for", to))? {
        true => Err(taken(root, &identity.name)),
        false => storage.rename(&temporary, to).map_err(|e| match e.kind() {
            std::io::ErrorKind::DirectoryNotEmpty => taken(root, &identity.name),
            _ => AofError::io("name the fork", to)(e),
        }),
    };
    if let Err(error @ AofError::NameTaken { .. }) = named {
        // Somebody else was quicker.
        remove_tree(storage, &temporary)?;
        return Err(error);
    }
    named?;
    storage.sync_dir(parent).map_err(AofError::io("sync directory", parent))?;
    Ok(identity)
}

/// As if somebody had opened the fork and closed it: readers need not look for its end. It
/// is a shortcut, and not synced.
fn store_watermark(
    storage: &dyn Storage,
    layout: &Layout,
    identity: &StreamIdentity,
    lineage: &Lineage,
) -> Result<()> {
    let header = WatermarkHeader {
        writer_pid: std::process::id(),
        stream_id: identity.stream_id,
        writer_epoch_ns: identity.created_at_ns,
    };
    let start = lineage.start;
    let end = Position::new(start.segment, 0).as_u64();
    let body = WatermarkBody {
        durable_position: end,
        durable_count: start.offset,
        appended_position: end,
        appended_count: start.offset,
        state: WatermarkState::Closed,
    };
    let path = layout.watermark_file();
    WatermarkPublisher::open(storage, &path, header, &body).map(drop)
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
