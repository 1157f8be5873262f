//! Where the parts of a catalog are, below its root.

use std::path::{Path, PathBuf};

/// Directory of the catalog in its root.
const DIRECTORY: &str = ".aof2";
const CHECKPOINT_SUFFIX: &str = ".ckpt";
const CURSOR_SUFFIX: &str = ".cursor";

/// Paths of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CatalogLayout {
    pub(super) root: PathBuf,
}

impl CatalogLayout {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.root.join(DIRECTORY)
    }

    /// The operation log.
    pub(super) fn log(&self) -> PathBuf {
        self.directory().join("segment_store.log")
    }

    pub(super) fn tables(&self) -> PathBuf {
        self.directory().join("tables.redb")
    }

    /// The same while they are made again.
    pub(super) fn unfinished_tables(&self) -> PathBuf {
        self.directory().join("tables.redb.new")
    }

    pub(super) fn checkpoints(&self) -> PathBuf {
        self.directory().join("checkpoints")
    }

    pub(super) fn cursors(&self) -> PathBuf {
        self.directory().join("cursors")
    }

    /// The checkpoint after a batch.
    pub(super) fn checkpoint(&self, generation: u64) -> PathBuf {
        self.checkpoints().join(format!("{generation:020}{CHECKPOINT_SUFFIX}"))
    }

    /// The same while it is written.
    pub(super) fn unfinished_checkpoint(&self, generation: u64) -> PathBuf {
        self.checkpoints().join(format!("{generation:020}{CHECKPOINT_SUFFIX}.tmp"))
    }

    /// A checkpoint that does not fit the log.
    pub(super) fn unfit_checkpoint(&self, generation: u64) -> PathBuf {
        self.checkpoints().join(format!("{generation:020}{CHECKPOINT_SUFFIX}.unfit"))
    }

    pub(super) fn cursor(&self, name: &str) -> PathBuf {
        self.cursors().join(format!("{name}{CURSOR_SUFFIX}"))
    }

    pub(super) fn unfinished_cursor(&self, name: &str) -> PathBuf {
        self.cursors().join(format!("{name}{CURSOR_SUFFIX}.tmp"))
    }

    pub(super) fn cursor_lock(&self, name: &str) -> PathBuf {
        self.cursors().join(format!("{name}.lock"))
    }
}

/// The batch that a checkpoint of this file name includes.
pub(super) fn checkpoint_generation(file_name: &str) -> Option<u64> {
    let digits = file_name.strip_suffix(CHECKPOINT_SUFFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The cursor of this file name.
pub(super) fn cursor_name(file_name: &str) -> Option<&str> {
    file_name.strip_suffix(CURSOR_SUFFIX).filter(|name| !name.is_empty())
}
