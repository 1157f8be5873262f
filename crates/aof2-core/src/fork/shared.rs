//! Which segments of which logs a fork or a snapshot reads, and holding them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cut::Cut;
use crate::error::{AofError, Result};
use crate::format::{
    Hold, HolderKind, Inheritance, LINEAGE_DEPTH_MAX, Lineage, StreamId, StreamIdentity,
};
use crate::io::Storage;
use crate::planted::{self, ForkBug};
use crate::read::Source;
use crate::store::{Holds, HoldsLock, Layout, Listing, locate};

/// A log that is forked, or of which a snapshot is taken.
pub(super) struct Parent<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) dir: &'a Path,
    pub(super) identity: &'a StreamIdentity,
    pub(super) source: &'a Arc<dyn Source>,
}

/// Segments of one log that are shared.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// Where the log is.
    pub(super) dir: PathBuf,
    pub(super) part: Inheritance,
}

/// Who is going to read them.
#[derive(Clone, Debug)]
pub(super) struct Holder<'a> {
    pub(super) kind: HolderKind,
    pub(super) id: StreamId,
    pub(super) name: &'a str,
    /// The directory of the fork, or of the log that the snapshot is of.
    pub(super) dir: &'a Path,
    pub(super) now_ms: u64,
    pub(super) expires_at_ms: Option<u64>,
}

/// Holds that were put.
pub(super) struct Placed {
    holds: Vec<(PathBuf, Hold)>,
}

impl Parent<'_> {
    fn lineage(&self) -> Option<Lineage> {
        self.source.inherited().map(|inherited| inherited.lineage().clone())
    }

    /// Whether the first of these segments is certainly there, by a single look.
    fn has_still(&self, shared: &Shared) -> Result<bool> {
        let part = &shared.part;
        if part.origin == self.identity.stream_id {
            let first = self.source.table().find(part.first_segment.as_u32());
            let path = first.filter(|first| first.is_hot()).map(|first| first.path.clone());
            return path.map_or(Ok(false), |path| {
                self.storage.exists(&path).map_err(AofError::io("look for", &path))
            });
        }
        let layout = Layout::new(&shared.dir);
        let holds = Holds::of(self.storage, &layout);
        let held = holds.find(HolderKind::Fork, self.identity.stream_id, "")?;
        Ok(held.is_some_and(|hold| hold.first_segment <= part.first_segment))
    }

    /// What is shared by whoever reads the log up to the cut, oldest first.
    pub(super) fn shared_until(&self, cut: &Cut) -> Result<Vec<Shared>> {
        let Some(last) = &cut.last else { return Ok(Vec::new()) };
        let mut shared = Vec::new();
        let lineage = self.lineage();
        for origin in lineage.iter().flat_map(|lineage| &lineage.origins) {
            if origin.first_offset >= cut.offset {
                break;
            }
            let dir = lineage
                .as_ref()
                .map_or(Ok(None), |lineage| locate(self.storage, self.dir, lineage, origin))?;
            let missing = || AofError::NotALog {
                path: self.dir.join(&origin.path),
                reason: format!("log {:?}, whose records are shared, is missing", origin.name),
            };
            let dir = dir.ok_or_else(missing)?;
            let part = match last.stream_id == origin.origin {
                true => cut_at(origin.clone(), cut),
                false => origin.clone(),
            };
            shared.push(Shared { dir, part });
        }
        if last.stream_id == self.identity.stream_id {
            let own_start = lineage.map(|lineage| (lineage.start.segment, lineage.start.offset));
            let first = self.source.table().first();
            let first = first.map(|entry| (entry.meta.segment_id, entry.meta.first_offset));
            let (first_segment, first_offset) =
                first.or(own_start).unwrap_or((last.segment, cut.offset - 1));
            let own = Inheritance {
                origin: self.identity.stream_id,
                first_segment,
                last_segment: last.segment,
                cut: last.end,
                first_offset,
                end_offset: cut.offset,
                last_position: last.position,
                last_crc64: last.crc64,
                name: self.identity.name.clone(),
                path: String::new(),
            };
            shared.push(Shared { dir: self.dir.to_owned(), part: own });
        }
        if shared.len() > LINEAGE_DEPTH_MAX {
            let reason = format!(
                "{:?} has {} ancestors already; detach it, or a log that it was forked from",
                self.identity.name,
                shared.len() - 1
            );
            return Err(AofError::InvalidConfig { field: "from", reason });
        }
        Ok(shared)
    }
}

/// The part of what is inherited that ends at the cut.
fn cut_at(origin: Inheritance, cut: &Cut) -> Inheritance {
    match &cut.last {
        Some(last) => Inheritance {
            last_segment: last.segment,
            cut: last.end,
            end_offset: cut.offset,
            last_position: last.position,
            last_crc64: last.crc64,
            ..origin
        },
        None => origin,
    }
}

/// Nobody removes a segment of these logs, or holds one, as long as this is kept.
pub(super) fn lock_all<'a>(
    storage: &dyn Storage,
    logs: impl Iterator<Item = (StreamId, &'a Path)>,
) -> Result<Vec<HoldsLock>> {
    let mut logs: Vec<_> = logs.map(|(id, dir)| (id, Layout::new(dir))).collect();
    // In one order, so that two that fork each other's relatives do not wait for ever.
    logs.sort_by_key(|(id, _)| *id);
    logs.dedup_by_key(|(id, _)| *id);
    logs.iter().map(|(_, layout)| Holds::of(storage, layout).lock()).collect()
}

/// Puts a hold on every log whose segments are shared, and makes sure that they are there.
/// They are locked.
pub(super) fn hold_all(
    parent: &Parent<'_>,
    shared: &[Shared],
    holder: &Holder<'_>,
) -> Result<Placed> {
    let storage = parent.storage;
    let mut placed = Placed { holds: Vec::new() };
    let first = match planted::in_forks(ForkBug::OnlyParentHeld) {
        true => shared.len().saturating_sub(1),
        false => 0,
    };
    for shared in shared.iter().skip(first) {
        let hold = hold_of(shared, holder);
        put(storage, &shared.dir, &hold)?;
        placed.holds.push((shared.dir.clone(), hold));
    }
    for shared in shared {
        if let Err(error) = check_there(parent, shared) {
            placed.release(storage)?;
            return Err(error);
        }
    }
    Ok(placed)
}

fn put(storage: &dyn Storage, dir: &Path, hold: &Hold) -> Result<()> {
    let layout = Layout::new(dir);
    let holds = Holds::of(storage, &layout);
    match planted::in_forks(ForkBug::HoldUnsynced) {
        true => holds.put_unsynced(hold),
        false => holds.put(hold),
    }
}

fn hold_of(shared: &Shared, holder: &Holder<'_>) -> Hold {
    let part = &shared.part;
    Hold {
        origin: part.origin,
        kind: holder.kind,
        holder: holder.id,
        name: holder.name.to_owned(),
        path: crate::store::relative_path(&shared.dir, holder.dir),
        first_segment: part.first_segment,
        last_segment: part.last_segment,
        cut: part.cut,
        first_offset: part.first_offset,
        end_offset: part.end_offset,
        created_at_ms: holder.now_ms,
        expires_at_ms: holder.expires_at_ms,
        is_pending: true,
    }
}

/// Whether the segments are there, now that nobody removes them any more. Where a look at
/// one file, or at what the parent itself holds, tells, nothing is listed.
pub(super) fn check_there(parent: &Parent<'_>, shared: &Shared) -> Result<()> {
    if planted::in_forks(ForkBug::StartNotRechecked) || parent.has_still(shared)? {
        return Ok(());
    }
    let listing = Listing::take(parent.storage, &Layout::new(&shared.dir))?;
    let part = &shared.part;
    match listing.find(part.first_segment).is_some() && listing.find(part.last_segment).is_some() {
        true => Ok(()),
        false => Err(AofError::Trimmed { earliest: part.first_offset + 1 }),
    }
}

/// The logs that are shared, to be locked.
pub(super) fn logs_of(shared: &[Shared]) -> impl Iterator<Item = (StreamId, &Path)> {
    shared.iter().map(|shared| (shared.part.origin, shared.dir.as_path()))
}

impl Placed {
    /// From now on the holder exists.
    pub(super) fn confirm(&self, storage: &dyn Storage) -> Result<()> {
        for (dir, hold) in &self.holds {
            let layout = Layout::new(dir);
            let held = Hold { is_pending: false, ..hold.clone() };
            // Either state is true after a cut, so the directory need not be synced.
            Holds::of(storage, &layout).replace(&held)?;
        }
        Ok(())
    }

    /// There will be no holder.
    pub(super) fn release(&self, storage: &dyn Storage) -> Result<()> {
        for (dir, hold) in &self.holds {
            Holds::of(storage, &Layout::new(dir)).release(&hold.file_name())?;
        }
        Ok(())
    }
}
