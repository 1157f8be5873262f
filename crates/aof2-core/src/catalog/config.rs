//! What a catalog can be told. Flat, validated, every default with its reason.

use std::path::PathBuf;

use crate::error::{AofError, Result};

/// Everything a catalog can be told.
///
/// ```
/// use aof2_core::CatalogConfig;
///
/// let config = CatalogConfig::new("data").actor("alice");
/// config.validate()?;
/// # Ok::<(), aof2_core::AofError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CatalogConfig {
    /// Directory of the logs and page stores; the catalog is in `.aof2` below it.
    pub root_dir: PathBuf,
    /// Who decides, for the audit; by default machine and process.
    pub actor: Option<String>,
    /// Calls that may wait for the writer. 1,024 by default; the next ones block.
    pub queue_max: usize,
    /// Bytes of operations that become one batch, if so many wait. 1 MiB by default.
    pub batch_bytes: usize,
    /// How long the first of a batch waits for others. 0 by default: while a batch is
    /// synced, the next one gathers by itself.
    pub linger_us: u64,
    /// Operations after which a checkpoint is written. 100,000 by default: opening after a
    /// crash applies at most about so many.
    pub checkpoint_operations: u64,
    /// Size of the first segment of the operation log; later ones grow up to 16 times that.
    /// 1 MiB by default: the log is trimmed by whole segments.
    pub segment_bytes: u64,
    /// Batches that are kept for a reader of the feed that does not acknowledge them.
    /// 1,000,000 by default.
    pub cursor_batches_max: u64,
    /// How long a reader of the feed may acknowledge nothing, while there is something to
    /// acknowledge. A week by default.
    pub cursor_age_ms_max: u64,
}

impl CatalogConfig {
    /// Defaults for the catalog of this directory.
    pub fn new(root_dir: impl Into<PathBuf>) -> Self {
        Self {
            root_dir: root_dir.into(),
            actor: None,
            queue_max: 1024,
            batch_bytes: 1 << 20,
            linger_us: 0,
            checkpoint_operations: 100_000,
            segment_bytes: 1 << 20,
            cursor_batches_max: 1_000_000,
            cursor_age_ms_max: 7 * 24 * 3_600_000,
        }
    }

    /// Sets who decides.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Checks every field.
    pub fn validate(&self) -> Result<()> {
        let invalid =
            |field, reason: &str| Err(AofError::InvalidConfig { field, reason: reason.to_owned() });
        if !(1..=1 << 20).contains(&self.queue_max) {
            return invalid("queue_max", "must be from 1 to 1048576");
        }
        if !(4096..=16 << 20).contains(&self.batch_bytes) {
            return invalid("batch_bytes", "must be from 4 KiB to 16 MiB");
        }
        if self.linger_us > 1_000_000 {
            return invalid("linger_us", "must be at most a second");
        }
        if self.checkpoint_operations == 0 {
            return invalid("checkpoint_operations", "must be at least 1");
        }
        if self.cursor_batches_max == 0 || self.cursor_age_ms_max == 0 {
            return invalid("cursor_batches_max", "and cursor_age_ms_max must be at least 1");
        }
        Ok(())
    }
}
