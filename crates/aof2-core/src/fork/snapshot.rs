//! Snapshots: places with a name.
//!
//! A snapshot is a hold of a log on itself, and on every log whose records it has from
//! there. Its own one comes last and goes first: while it is there, the snapshot exists.

use std::path::Path;

use super::cut::{Cut, ForkAt, find};
use super::shared::{Holder, Parent, Shared, check_there, hold_all, lock_all, logs_of};
use crate::error::{AofError, Result};
use crate::format::{Hold, HolderKind, StreamIdentity, validate_name};
use crate::io::Clock;
use crate::store::{Holds, Layout};

/// A place of a log that has a name, and stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name, which is one of its log's.
    pub name: String,
    /// Logical offset of the first record behind it.
    pub offset: u64,
    /// When it was taken, milliseconds since the epoch.
    pub created_at_ms: u64,
    /// When it goes, if it does by itself.
    pub expires_at_ms: Option<u64>,
}

impl From<&Hold> for SnapshotInfo {
    fn from(hold: &Hold) -> Self {
        let Hold { created_at_ms, expires_at_ms, .. } = *hold;
        Self { name: hold.name.clone(), offset: hold.end_offset, created_at_ms, expires_at_ms }
    }
}

/// Takes a snapshot.
pub(super) fn take(
    parent: &Parent<'_>,
    clock: &dyn Clock,
    name: &str,
    at: &ForkAt,
    expires_at_ms: Option<u64>,
) -> Result<SnapshotInfo> {
    let invalid = |e: crate::format::FormatError| AofError::InvalidConfig {
        field: "name",
        reason: e.to_string(),
    };
    validate_name(name).map_err(invalid)?;
    let (storage, dir) = (parent.storage, parent.dir);
    let cut = find(parent.source, at)?;
    let all = parent.shared_until(&cut)?;
    let is_own = |shared: &&Shared| shared.part.origin == parent.identity.stream_id;
    let shared: Vec<Shared> = all.iter().filter(|shared| !is_own(shared)).cloned().collect();
    let own = all.iter().find(is_own);
    let now_ms = clock.now_ns() / 1_000_000;
    let id = parent.identity.stream_id;
    let holder = Holder { kind: HolderKind::Snapshot, id, name, dir, now_ms, expires_at_ms };
    let layout = Layout::new(dir);
    let holds = Holds::of(storage, &layout);
    let _locks = lock_all(storage, logs_of(&shared).chain([(id, dir)]))?;
    // One whose time is over is replaced.
    let known = find_own(&holds, parent.identity, name)?;
    let is_live = |hold: &Hold| hold.expires_at_ms.is_none_or(|expires| expires > now_ms);
    if let Some(known) = known.filter(is_live) {
        return Err(AofError::NameTaken {
            name: name.to_owned(),
            url: format!("the snapshots of {} (at offset {})", dir.display(), known.end_offset),
            holder: crate::format::StreamId::from_u64(0),
            remedy: "choose another name, or drop that snapshot",
        });
    }
    // Those of ancestors first.
    let placed = hold_all(parent, &shared, &holder)?;
    let hold = Hold { created_at_ms: now_ms, expires_at_ms, ..own_hold(parent, &cut, &all, name) };
    holds.put(&hold)?;
    if let Some(Err(error)) = own.map(|own| check_there(parent, own)) {
        holds.release(&hold.file_name())?;
        placed.release(storage)?;
        return Err(error);
    }
    placed.confirm(storage)?;
    Ok(SnapshotInfo::from(&hold))
}

/// The hold that is the snapshot. It has all segments up to the place, inherited ones, too:
/// the log may have copies of them itself one day.
fn own_hold(parent: &Parent<'_>, cut: &Cut, shared: &[Shared], name: &str) -> Hold {
    let first = shared.first().map(|shared| &shared.part);
    let last = shared.last().map(|shared| &shared.part);
    let start = cut.start;
    Hold {
        origin: parent.identity.stream_id,
        kind: HolderKind::Snapshot,
        holder: parent.identity.stream_id,
        name: name.to_owned(),
        path: ".".to_owned(),
        first_segment: first.map_or(start.segment, |part| part.first_segment),
        last_segment: last.map_or(start.segment, |part| part.last_segment),
        cut: last.map_or(0, |part| part.cut),
        first_offset: first.map_or(cut.offset, |part| part.first_offset),
        end_offset: cut.offset,
        created_at_ms: 0,
        expires_at_ms: None,
        is_pending: false,
    }
}

pub(super) fn find_own(
    holds: &Holds<'_>,
    identity: &StreamIdentity,
    name: &str,
) -> Result<Option<Hold>> {
    holds.find(HolderKind::Snapshot, identity.stream_id, name)
}

/// The snapshots of a log, by name. Those whose time is over are left out.
pub(super) fn list(
    storage: &dyn crate::io::Storage,
    dir: &Path,
    identity: &StreamIdentity,
    now_ms: u64,
) -> Result<Vec<SnapshotInfo>> {
    let layout = Layout::new(dir);
    let listed = Holds::of(storage, &layout).list()?;
    let own = listed.holds.iter().filter(|hold| {
        hold.kind == HolderKind::Snapshot
            && hold.holder == identity.stream_id
            && hold.expires_at_ms.is_none_or(|expires| expires > now_ms)
    });
    Ok(own.map(SnapshotInfo::from).collect())
}
