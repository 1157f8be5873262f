//! What is due when nobody asks: commits, seals and snapshots by their timers.

use std::time::Duration;

use super::retention::removable;
use super::{Files, Manifest};
use crate::error::Result;
use crate::manifest::chunks::{ChunkInfo, ManifestPosition};

impl Manifest {
    /// Does what is due: commits, seals, uploads, takes a snapshot, removes old chunks.
    /// Says how long nothing will be due; `None` as long as nothing is recorded.
    ///
    /// Uploads that fail are recorded and tried again later, and so are snapshots; the
    /// errors given here are those of the chunk that is being written. If it is not
    /// poisoned, as on a full disk, the caller comes again after a while of its choice.
    pub fn maintain(&self) -> Result<Option<Duration>> {
        self.commit_if_due()?;
        self.rotate_if_due()?;
        self.upload_due(self.uploader.lock().clone(), true)?;
        self.snapshot_if_due();
        self.retain(self.uploader.lock().clone())?;
        Ok(self.next_due(self.next_upload_ms()))
    }

    /// The part of [`Manifest::maintain`] that asks no store anything, for owners whose
    /// commits must not wait for one. [`Manifest::maintain_store`] is the rest.
    pub fn maintain_local(&self) -> Result<Option<Duration>> {
        self.commit_if_due()?;
        self.rotate_if_due()?;
        self.snapshot_if_due();
        if !self.config.upload_required {
            self.retain(None)?;
        }
        Ok(self.next_due(None))
    }

    /// Uploads sealed chunks, and removes old ones that the store has. Says how long
    /// nothing will be due; `None` until another chunk is sealed. Whoever calls knows when
    /// the store is worth another try: a store that refused a chunk is asked again at once.
    pub fn maintain_store(&self) -> Result<Option<Duration>> {
        let uploader = self.uploader.lock().clone();
        if uploader.is_none() {
            return Ok(None);
        }
        self.upload_due(uploader.clone(), false)?;
        if self.config.upload_required {
            self.retain(uploader)?;
        }
        let due_ms = self.next_upload_ms();
        Ok(due_ms.map(|due| Duration::from_millis(due.saturating_sub(self.now_ms()))))
    }

    /// Whether a sealed chunk waits for the store.
    pub fn has_chunks_to_upload(&self) -> bool {
        self.uploader.lock().is_some()
            && self.files.lock().writer.sealed().any(|info| !info.is_uploaded)
    }

    fn commit_if_due(&self) -> Result<()> {
        let now_ms = self.now_ms();
        let is_due = {
            let state = self.state.lock();
            state.check()?;
            state.backlog_len > 0
                || state.staged.len() >= self.config.commit_bytes
                || (self.config.commit_ms > 0
                    && state
                        .staged_since_ms
                        .is_some_and(|since| now_ms.saturating_sub(since) >= self.config.commit_ms))
        };
        if is_due { self.commit() } else { Ok(()) }
    }

    fn rotate_if_due(&self) -> Result<()> {
        let mut files = self.files.lock();
        let idle_ms = self.now_ms().saturating_sub(files.last_commit_ms);
        if self.config.rotation_ms == 0
            || !files.writer.has_news()
            || idle_ms < self.config.rotation_ms
        {
            return Ok(());
        }
        let rotated = files.writer.rotate();
        self.publish(&files);
        rotated.map(drop)
    }

    fn snapshot_if_due(&self) {
        let is_due = {
            let files = self.files.lock();
            self.config.snapshot_every_chunks > 0
                && self.now_ms() >= files.snapshot_not_before_ms
                && (self.is_history_long(&files) || self.would_free(&files))
        };
        if is_due && let Err(error) = self.snapshot() {
            tracing::warn!(%error, "manifest snapshot failed");
        }
    }

    fn is_history_long(&self, files: &Files) -> bool {
        let is_newer = |info: &&ChunkInfo| {
            let end = ManifestPosition {
                chunk_index: info.chunk_index,
                chunk_offset: info.committed_len,
            };
            files.newest_snapshot.is_none_or(|snapshot| end > snapshot)
        };
        let newer = files.writer.sealed().filter(is_newer).count();
        newer as u64 >= self.config.snapshot_every_chunks
    }

    /// Whether chunks wait for nothing but a snapshot of this process.
    fn would_free(&self, files: &Files) -> bool {
        let required = self.config.upload_required;
        let newest = files.newest_snapshot.map(|position| position.chunk_index);
        files.floor.is_none() && removable(files.writer.sealed(), newest, required).next().is_some()
    }

    fn next_due(&self, upload_ms: Option<u64>) -> Option<Duration> {
        let now_ms = self.now_ms();
        let rotation_ms = {
            let files = self.files.lock();
            let due = files.last_commit_ms.saturating_add(self.config.rotation_ms);
            (self.config.rotation_ms > 0 && files.writer.has_news()).then_some(due)
        };
        let state = self.state.lock();
        let commit_ms = (self.config.commit_ms > 0)
            .then(|| state.staged_since_ms.map(|since| since.saturating_add(self.config.commit_ms)))
            .flatten();
        let due_ms = [commit_ms, rotation_ms, upload_ms].into_iter().flatten().min()?;
        Some(Duration::from_millis(due_ms.saturating_sub(now_ms)))
    }
}
