//! How a manifest is kept. Every default has its reason beside it.

use std::time::Duration;

use crate::error::{AofError, Result};
use crate::format::manifest::{CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};

/// The longest object key or ETag that is recorded, in bytes: what object stores allow.
pub const KEY_LEN_MAX: usize = 1024;

/// The longest blob of a custom event, in bytes.
pub const BLOB_LEN_MAX: usize = u16::MAX as usize;

/// Chunk sizes are multiples of this: what file systems allocate in.
const CHUNK_BYTES_STEP: u64 = 4096;

/// How the manifest of one stream is kept.
///
/// ```
/// use aof2_core::manifest::ManifestConfig;
///
/// let config = ManifestConfig { chunk_bytes: 64 << 10, ..ManifestConfig::local() };
/// config.validate()?;
/// # Ok::<(), aof2_core::AofError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestConfig {
    /// Size of a chunk file, 16 KiB to 1 MiB in steps of 4 KiB; 256 KiB by default: some
    /// three thousand records, a few milliseconds of replay.
    pub chunk_bytes: u64,
    /// A chunk with news in it is sealed this long after its last commit, so that it can
    /// be uploaded; 250 by default. 0 seals by size alone.
    pub rotation_ms: u64,
    /// Uncommitted bytes at which [`Manifest::maintain`](crate::manifest::Manifest::maintain) commits at
    /// once; 32 KiB by default: one write that the disk likes.
    pub commit_bytes: u64,
    /// How long a record may wait for its commit; 20 by default: a tier transition takes
    /// longer. 0 commits by bytes and on demand alone.
    pub commit_ms: u64,
    /// Uncommitted bytes at which recording commits by itself, so that memory stays
    /// bounded when nobody maintains the manifest; 1 MiB by default.
    pub staged_bytes_max: u64,
    /// Chunks after which a snapshot is due; 8 by default: replay reads at most 2 MiB.
    /// 0 takes snapshots on demand alone.
    pub snapshot_every_chunks: u64,
    /// Snapshots kept, 1 to 16; 2 by default: if the newest is damaged, replay starts at
    /// the one before it, whose chunks are kept as well.
    pub snapshots_kept: usize,
    /// Whether a chunk must have been uploaded before its local file may go; yes by
    /// default.
    pub upload_required: bool,
    /// What object keys start with; empty by default.
    pub upload_prefix: String,
    /// Pause before a failed upload is tried again, doubled with each failure; 500 by
    /// default.
    pub upload_retry_ms: u64,
    /// The longest pause between two tries; one minute by default.
    pub upload_retry_ms_max: u64,
}

impl Default for ManifestConfig {
    fn default() -> Self {
        Self {
            chunk_bytes: CHUNK_BYTES_DEFAULT,
            rotation_ms: 250,
            commit_bytes: 32 << 10,
            commit_ms: 20,
            staged_bytes_max: 1 << 20,
            snapshot_every_chunks: 8,
            snapshots_kept: 2,
            upload_required: true,
            upload_prefix: String::new(),
            upload_retry_ms: 500,
            upload_retry_ms_max: 60_000,
        }
    }
}

impl ManifestConfig {
    /// For a log without a cold tier: chunks are sealed when they are full, and old ones
    /// go as soon as a snapshot covers them.
    pub fn local() -> Self {
        Self { rotation_ms: 0, upload_required: false, ..Self::default() }
    }

    /// Checks every field.
    pub fn validate(&self) -> Result<()> {
        let invalid = |field, reason: String| Err(AofError::InvalidConfig { field, reason });
        let chunk = self.chunk_bytes;
        if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk)
            || !chunk.is_multiple_of(CHUNK_BYTES_STEP)
        {
            let reason = format!("{chunk} is not a multiple of 4 KiB from 16 KiB to 1 MiB");
            return invalid("chunk_bytes", reason);
        }
        if self.commit_bytes == 0 {
            return invalid("commit_bytes", "must be at least 1".into());
        }
        if !(self.commit_bytes..=64 << 20).contains(&self.staged_bytes_max) {
            return invalid("staged_bytes_max", "must be from commit_bytes to 64 MiB".into());
        }
        if !(1..=16).contains(&self.snapshots_kept) {
            return invalid("snapshots_kept", "must be from 1 to 16".into());
        }
        if self.upload_prefix.len() > KEY_LEN_MAX / 2 {
            return invalid("upload_prefix", format!("longer than {} bytes", KEY_LEN_MAX / 2));
        }
        if self.upload_retry_ms == 0 || self.upload_retry_ms > self.upload_retry_ms_max {
            return invalid("upload_retry_ms", "must be from 1 to upload_retry_ms_max".into());
        }
        Ok(())
    }

    /// Pause after so many failures in a row.
    pub(super) fn upload_pause(&self, failures: u32) -> Duration {
        let doubled = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
        let pause_ms = self.upload_retry_ms.saturating_mul(doubled).min(self.upload_retry_ms_max);
        Duration::from_millis(pause_ms)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_work_are_refused_by_name() {
        ManifestConfig::default().validate().unwrap();
        ManifestConfig::local().validate().unwrap();
        type Change = fn(&mut ManifestConfig);
        let changes: [(&str, Change); 9] = [
            ("chunk_bytes", |c| c.chunk_bytes = 8 << 10),
            ("chunk_bytes", |c| c.chunk_bytes = 2 << 20),
            ("chunk_bytes", |c| c.chunk_bytes = (16 << 10) + 8),
            ("commit_bytes", |c| c.commit_bytes = 0),
            ("staged_bytes_max", |c| c.staged_bytes_max = 1),
            ("snapshots_kept", |c| c.snapshots_kept = 0),
            ("upload_prefix", |c| c.upload_prefix = "x".repeat(600)),
            ("upload_retry_ms", |c| c.upload_retry_ms = 0),
            ("upload_retry_ms", |c| c.upload_retry_ms_max = 1),
        ];
        for (name, change) in changes {
            let mut config = ManifestConfig::default();
            change(&mut config);
            match config.validate() {
                Err(AofError::InvalidConfig { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let config = ManifestConfig::default();
        let pauses: Vec<u64> =
            [1, 2, 3, 4, 8, 64, u32::MAX].map(|n| config.upload_pause(n).as_millis() as u64).into();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 60_000, 60_000, 60_000]);
    }
}
