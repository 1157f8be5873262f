//! The logs of a root, and which was forked from which.

use std::path::{Path, PathBuf};

use super::snapshot::{self, SnapshotInfo};
use super::sweep::dropped_logs;
use crate::error::Result;
use crate::format::{HolderKind, StreamId};
use crate::io::Storage;
use crate::store::{Holds, Layout, load_lineage, relative_path, walk_logs};

/// One log of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogNode {
    /// Its name in the root.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its id.
    pub stream_id: StreamId,
    /// The log that it was forked from, if it still shares records with one.
    pub parent: Option<StreamId>,
    /// What that one was called then.
    pub parent_name: Option<String>,
    /// The first logical offset that is its own.
    pub fork_offset: Option<u64>,
    /// How many logs it shares records of.
    pub depth: usize,
    /// Whether it was dropped, and is there only because others read it.
    pub is_dropped: bool,
    /// Its snapshots, by name.
    pub snapshots: Vec<SnapshotInfo>,
    /// Forks and snapshots of others that read its segments.
    pub holders: Vec<String>,
}

/// The logs of a root, parents before their forks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTree {
    /// All of them.
    pub logs: Vec<LogNode>,
}

impl LogTree {
    /// The logs that were forked from this one and still share its records.
    pub fn forks_of(&self, id: StreamId) -> impl Iterator<Item = &LogNode> {
        self.logs.iter().filter(move |node| node.parent == Some(id))
    }

    /// Those that were forked from no log of the root.
    pub fn roots(&self) -> impl Iterator<Item = &LogNode> {
        let is_known = |id: StreamId| self.logs.iter().any(|node| node.stream_id == id);
        self.logs.iter().filter(move |node| node.parent.is_none_or(|id| !is_known(id)))
    }
}

pub(super) fn read(storage: &dyn Storage, root: &Path, now_ms: u64) -> Result<LogTree> {
    let mut dirs = Vec::new();
    walk_logs(storage, root, 0, &mut |dir| {
        dirs.push((dir.to_owned(), false));
        Ok(())
    })?;
    dirs.extend(dropped_logs(storage, root)?.into_iter().map(|dir| (dir, true)));
    let mut logs = Vec::new();
    for (dir, is_dropped) in dirs {
        logs.extend(node(storage, root, &dir, is_dropped, now_ms)?);
    }
    logs.sort_by(|a, b| (a.depth, &a.name).cmp(&(b.depth, &b.name)));
    Ok(LogTree { logs })
}

fn node(
    storage: &dyn Storage,
    root: &Path,
    dir: &Path,
    is_dropped: bool,
    now_ms: u64,
) -> Result<Option<LogNode>> {
    let layout = Layout::new(dir);
    let Some(identity) = layout.load_identity(storage)? else { return Ok(None) };
    let lineage = load_lineage(storage, &layout, &identity)?;
    let parent = lineage.as_ref().and_then(|lineage| lineage.origins.last());
    let id = identity.stream_id;
    let listed = Holds::of(storage, &layout).list()?;
    let others = listed.holds.iter().filter(|hold| hold.holder != id);
    let holders = others.map(|hold| match hold.kind {
        HolderKind::Fork => format!("fork {:?}", hold.name),
        HolderKind::Snapshot => format!("snapshot {:?}", hold.name),
    });
    Ok(Some(LogNode {
        name: match is_dropped {
            true => identity.name.clone(),
            false => relative_path(root, dir),
        },
        path: dir.to_owned(),
        stream_id: id,
        parent: parent.map(|parent| parent.origin),
        parent_name: parent.map(|parent| parent.name.clone()),
        fork_offset: parent.map(|parent| parent.end_offset),
        depth: lineage.as_ref().map_or(0, |lineage| lineage.origins.len()),
        is_dropped,
        snapshots: snapshot::list(storage, dir, &identity, now_ms)?,
        holders: holders.collect(),
    }))
}
