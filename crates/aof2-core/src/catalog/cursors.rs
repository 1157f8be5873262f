//! Named places in the change feed: small files that their readers write.
//!
//! A cursor belongs to whoever reads with it, in any process, and is locked while that
//! process has it. The writer of the catalog only looks at the files: before it trims the log,
//! it reads them from the disk and notes in `generation_watermarks` what it found, so that
//! everybody sees how far behind each of them is. A cursor that is too far behind is expired
//! by an operation, then its file is removed, unless its reader has it or moved it meanwhile;
//! its reader gets `FeedReset`. A reader that gives its place up writes that down, and the
//! writer removes the file once it is noted: a cursor that the catalog knows and whose file
//! is gone was lost, and its reader is told.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint::{make_directory, remove_if_there};
use super::layout::{CatalogLayout, cursor_name};
use crate::error::{AofError, Result};
use crate::format::{CURSOR_FILE_LEN_MAX, CursorFile};
use crate::io::{ForkStamp, LockError, LockGuard, OpenMode, Storage};

/// What the file of a cursor says; `None` if it cannot be read.
pub(super) type Found = (String, Option<CursorFile>);

/// All cursors, by name.
pub(super) fn list(storage: &dyn Storage, layout: &CatalogLayout) -> Result<Vec<Found>> {
    let directory = layout.cursors();
    let entries = match storage.list(&directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(AofError::io("list the cursors", &directory)(e)),
    };
    let mut found = Vec::new();
    for name in entries.iter().filter_map(|entry| cursor_name(&entry.name)) {
        let cursor = match read(storage, &layout.cursor(name)) {
            Ok(Some(cursor)) => Some(cursor),
            // Removed meanwhile.
            Ok(None) => continue,
            Err(AofError::Corrupt(_)) => None,
            Err(error) => return Err(error),
        };
        found.push((name.to_owned(), cursor));
    }
    found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

/// The cursor in a file; `None` if there is none.
pub(super) fn read(storage: &dyn Storage, path: &Path) -> Result<Option<CursorFile>> {
    let file = match storage.open(path, OpenMode::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(AofError::io("open a cursor", path)(e)),
    };
    let io = |op| AofError::io(op, path);
    let len = file.len().map_err(io("measure a cursor"))?;
    let mut bytes = vec![0; len.min(CURSOR_FILE_LEN_MAX as u64 + 1) as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io("read a cursor"))?;
    match CursorFile::decode(&bytes) {
        Ok(cursor) => Ok(Some(cursor)),
        Err(error) => Err(super::replay::divergence(path, 0, error.to_string())),
    }
}

/// Removes the file of a cursor that was expired or given up, unless its reader has it, or
/// it says something else by now.
pub(super) fn remove_unmoved(
    storage: &Arc<dyn Storage>,
    layout: &CatalogLayout,
    (name, found): &Found,
) -> Result<()> {
    let handle = match CursorHandle::take(storage, layout, name) {
        Ok(handle) => handle,
        Err(AofError::Locked { .. } | AofError::InvalidConfig { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let now = match handle.read() {
        Err(AofError::Corrupt(_)) => None,
        other => other?,
    };
    match now == *found {
        true => handle.remove(),
        false => Ok(()),
    }
}

/// The right to move a cursor.
#[derive(Debug)]
pub(super) struct CursorHandle {
    storage: Arc<dyn Storage>,
    layout: CatalogLayout,
    pub(super) name: String,
    _lock: Box<dyn LockGuard>,
    stamp: ForkStamp,
}

impl CursorHandle {
    pub(super) fn take(
        storage: &Arc<dyn Storage>,
        layout: &CatalogLayout,
        name: &str,
    ) -> Result<Self> {
        crate::format::validate_name(name)
            .map_err(|e| AofError::InvalidConfig { field: "cursor", reason: e.to_string() })?;
        make_directory(&**storage, layout, &layout.cursors())?;
        let path = layout.cursor_lock(name);
        let lock = storage.lock(&path).map_err(|error| match error {
            LockError::Held { pid } => AofError::Locked { path: layout.cursor(name), pid },
            LockError::Io(e) => AofError::io("lock a cursor", &path)(e),
        })?;
        Ok(Self {
            storage: Arc::clone(storage),
            layout: layout.clone(),
            name: name.to_owned(),
            _lock: lock,
            stamp: ForkStamp::now(),
        })
    }

    pub(super) fn read(&self) -> Result<Option<CursorFile>> {
        read(&*self.storage, &self.layout.cursor(&self.name))
    }

    /// Durable when it returns. A crash leaves the old place or the new one.
    pub(super) fn write(&self, cursor: &CursorFile) -> Result<()> {
        self.check_not_forked()?;
        let temporary = self.layout.unfinished_cursor(&self.name);
        remove_if_there(&*self.storage, &temporary)?;
        let io = |op| AofError::io(op, &temporary);
        let file = self.storage.create_new(&temporary).map_err(io("create a cursor"))?;
        file.write_all_at(&cursor.encode(), 0).map_err(io("write a cursor"))?;
        file.sync().map_err(io("sync a cursor"))?;
        let path = self.layout.cursor(&self.name);
        self.storage.rename(&temporary, &path).map_err(io("name a cursor"))?;
        let directory = self.layout.cursors();
        self.storage.sync_dir(&directory).map_err(AofError::io("sync the cursors", &directory))
    }

    /// The lock is the parent's, who may have moved the cursor since.
    fn check_not_forked(&self) -> Result<()> {
        match self.stamp.is_forked() {
            true => Err(AofError::Forked),
            false => Ok(()),
        }
    }

    pub(super) fn remove(&self) -> Result<()> {
        self.check_not_forked()?;
        remove_if_there(&*self.storage, &self.layout.cursor(&self.name))?;
        let directory = self.layout.cursors();
        self.storage.sync_dir(&directory).map_err(AofError::io("sync the cursors", &directory))
    }
}
