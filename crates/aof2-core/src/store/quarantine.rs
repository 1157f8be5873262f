//! Damaged files that were taken out of the log, or are about to be rewritten.

use std::path::{Path, PathBuf};

use super::layout::{Layout, create_anew, temporary_of};
use crate::error::{AofError, Result};
use crate::io::{File, OpenMode, Storage};

const COPY_LEN: usize = 1 << 20;

/// Where originals go.
pub(crate) struct Quarantine<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) layout: &'a Layout,
}

impl Quarantine<'_> {
    fn ensure(&self) -> Result<PathBuf> {
        let dir = self.layout.quarantine_dir();
        self.storage.create_dir_all(&dir).map_err(AofError::io("create directory", &dir))?;
        let root = self.layout.root();
        self.storage.sync_dir(root).map_err(AofError::io("sync directory", root))?;
        Ok(dir)
    }

    /// Keeps a durable copy of the file. A run that was cut short may have made it
    /// already; then that one counts.
    pub(crate) fn preserve(&self, path: &Path) -> Result<PathBuf> {
        let dir = self.ensure()?;
        for target in candidates(&dir, path) {
            if !self.exists(&target)? {
                self.copy(path, &target)?;
            } else if !self.is_copy(path, &target)? {
                continue;
            }
            self.sync(&dir)?;
            return Ok(target);
        }
        Ok(dir)
    }

    /// Moves the file out of the log.
    pub(crate) fn take(&self, path: &Path) -> Result<PathBuf> {
        let dir = self.ensure()?;
        for target in candidates(&dir, path) {
            if self.exists(&target)? {
                continue;
            }
            self.storage.rename(path, &target).map_err(AofError::io("quarantine", path))?;
            // The new name first: a crash in between shows both, never neither.
            self.sync(&dir)?;
            self.sync(path.parent().unwrap_or(path))?;
            return Ok(target);
        }
        Ok(dir)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.storage.exists(path).map_err(AofError::io("look for", path))
    }

    fn sync(&self, dir: &Path) -> Result<()> {
        self.storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let source = self.open(from)?;
        let len = source.len().map_err(AofError::io("read", from))?;
        let temporary = temporary_of(to);
        let copy = create_anew(self.storage, &temporary)?;
        let mut chunk = vec![0; COPY_LEN];
        let mut at = 0;
        while at < len {
            let n = (len - at).min(chunk.len() as u64) as usize;
            source.read_exact_at(&mut chunk[..n], at).map_err(AofError::io("read", from))?;
            let is_last = at + n as u64 == len;
            // Holes stay holes; the last bytes give the copy its length.
            if is_last || chunk[..n].iter().fold(0, |all, byte| all | byte) != 0 {
                copy.write_all_at(&chunk[..n], at).map_err(AofError::io("write", &temporary))?;
            }
            at += n as u64;
        }
        copy.sync().map_err(AofError::io("sync", &temporary))?;
        self.storage.rename(&temporary, to).map_err(AofError::io("rename", to))
    }

    fn is_copy(&self, path: &Path, other: &Path) -> Result<bool> {
        let (a, b) = (self.open(path)?, self.open(other)?);
        let len = a.len().map_err(AofError::io("read", path))?;
        if b.len().map_err(AofError::io("read", other))? != len {
            return Ok(false);
        }
        let (mut left, mut right) = (vec![0; COPY_LEN], vec![0; COPY_LEN]);
        let mut at = 0;
        while at < len {
            let n = (len - at).min(COPY_LEN as u64) as usize;
            a.read_exact_at(&mut left[..n], at).map_err(AofError::io("read", path))?;
            b.read_exact_at(&mut right[..n], at).map_err(AofError::io("read", other))?;
            if left[..n] != right[..n] {
                return Ok(false);
            }
            at += n as u64;
        }
        Ok(true)
    }

    fn open(&self, path: &Path) -> Result<std::sync::Arc<dyn File>> {
        self.storage.open(path, OpenMode::Read).map_err(AofError::io("open", path))
    }
}

/// Names in the quarantine for a file: its own, then with a number behind it.
fn candidates(dir: &Path, path: &Path) -> impl Iterator<Item = PathBuf> {
    let name = path.file_name().unwrap_or_default().to_owned();
    let dir = dir.to_owned();
    (0u32..).map(move |n| {
        let mut name = name.clone();
        if n > 0 {
            name.push(format!(".{n}"));
        }
        dir.join(name)
    })
}
