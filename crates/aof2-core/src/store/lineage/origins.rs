//! Finding the directory of a log by its id.
//!
//! A fork remembers where its ancestors were. They may have been dropped since, and then are
//! in `.origins/` of the root, or moved, and then are looked for in the root.

use std::path::{Component, Path, PathBuf};

use crate::error::{AofError, Result};
use crate::format::{Inheritance, Lineage, StreamId};
use crate::io::{EntryKind, Storage};
use crate::store::identity::recorded_id;
use crate::store::layout::Layout;

/// Where a root keeps the logs that were dropped while others still read them.
pub(crate) const ORIGINS_DIR: &str = ".origins";
/// How many directories below a root a log may be.
const DEPTH_MAX: usize = 6;

/// Where a dropped log is kept.
pub(crate) fn dropped_dir(root: &Path, id: StreamId) -> PathBuf {
    root.join(ORIGINS_DIR).join(id.to_string())
}

/// The directory of an ancestor; `None` if it is nowhere.
pub(crate) fn locate(
    storage: &dyn Storage,
    fork_dir: &Path,
    lineage: &Lineage,
    origin: &Inheritance,
) -> Result<Option<PathBuf>> {
    let root = normal(&fork_dir.join(&lineage.root));
    let was = normal(&fork_dir.join(&origin.path));
    for dir in [was, dropped_dir(&root, origin.origin)] {
        if holds_log(storage, &dir, origin.origin)? {
            return Ok(Some(dir));
        }
    }
    find_log(storage, &root, origin.origin)
}

/// Whether the directory holds the log with this id.
pub(crate) fn holds_log(storage: &dyn Storage, dir: &Path, id: StreamId) -> Result<bool> {
    let layout = Layout::new(dir);
    let segments = layout.segments_dir();
    if !storage.exists(&segments).map_err(AofError::io("look for", &segments))? {
        return Ok(false);
    }
    let found = layout.load_identity(storage)?.map(|identity| identity.stream_id);
    Ok(found.or_else(|| recorded_id(storage, &layout)) == Some(id))
}

/// Looks for a log with this id below a root.
pub(crate) fn find_log(
    storage: &dyn Storage,
    root: &Path,
    id: StreamId,
) -> Result<Option<PathBuf>> {
    let mut found = None;
    walk_logs(storage, root, 0, &mut |dir| {
        if found.is_none() && holds_log(storage, dir, id)? {
            found = Some(dir.to_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

/// Visits the directories below a root that hold a log. Names that begin with a dot are the
/// root's own.
pub(crate) fn walk_logs(
    storage: &dyn Storage,
    dir: &Path,
    depth: usize,
    visit: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    let mut entries = match storage.list(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(AofError::io("list directory", dir))?,
    };
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    for entry in entries {
        if entry.kind != EntryKind::Directory || entry.name.starts_with('.') {
            continue;
        }
        let path = dir.join(&entry.name);
        let segments = path.join("segments");
        if storage.exists(&segments).map_err(AofError::io("look for", &segments))? {
            visit(&path)?;
        } else if depth < DEPTH_MAX {
            walk_logs(storage, &path, depth + 1, visit)?;
        }
    }
    Ok(())
}

/// The absolute path without `.` and `..`, as it reads.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or(path.to_owned());
    let mut normal = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            component => normal.push(component),
        }
    }
    normal
}

/// The way from one directory to another.
pub(crate) fn relative_path(from: &Path, to: &Path) -> String {
    let (from, to) = (normal(from), normal(to));
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.components().count() - common);
    let down = to.components().skip(common);
    let down = down.map(|component| component.as_os_str().to_string_lossy().into_owned());
    let parts: Vec<String> = up.chain(down).collect();
    match parts.is_empty() {
        true => ".".into(),
        false => parts.join("/"),
    }
}
