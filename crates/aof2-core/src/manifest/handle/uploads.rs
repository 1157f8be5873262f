//! What upkeep does about sealed chunks: send them to the store, then let old ones go.
//!
//! What a crash leaves:
//!
//! ```text
//! UploadStarted recorded            a pending upload in the index; it is tried again
//! object stored                     the same; the store is asked first, and has it
//! UploadDone committed              done in the index; the mark is set the next time
//! chunk marked as uploaded          done
//! chunk removed, directory synced   gone; the store has it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::metrics::count;
use super::retention::removable;
use super::{Manifest, NO_SEGMENT};
use crate::error::{AofError, Result};
use crate::format::manifest::{ManifestEvent, ReasonCode, StoredChunkName};
use crate::manifest::chunks::{Chunk, ChunkInfo};
use crate::manifest::cold::{ChunkMeta, ChunkUploader, StoredChunk, UploadError};
use crate::manifest::config::KEY_LEN_MAX;
use crate::planted;
use crate::planted::ManifestBug;

/// Failed uploads and when they are due again, by chunk.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    retries: BTreeMap<u64, Retry>,
}

#[derive(Clone, Copy, Debug)]
struct Retry {
    failures: u32,
    due_ms: u64,
    /// Whether the chunk itself could not be read: no reason to keep the others waiting.
    is_unreadable: bool,
}

/// What a try came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tried {
    Stored,
    Refused,
    Unreadable,
}

impl Manifest {
    /// Uploads every sealed chunk that is due, oldest first; with `waits` not before the
    /// pause after a refusal is over. A failure of the store ends the round: the next chunk
    /// would meet the same store.
    pub(super) fn upload_due(
        &self,
        uploader: Option<Arc<dyn ChunkUploader>>,
        waits: bool,
    ) -> Result<()> {
        let Some(uploader) = uploader else { return Ok(()) };
        let mut uploads = self.uploads.lock();
        let waiting: Vec<ChunkInfo> =
            self.files.lock().writer.sealed().filter(|info| !info.is_uploaded).copied().collect();
        uploads.retries.retain(|index, _| waiting.iter().any(|info| info.chunk_index == *index));
        for info in waiting {
            let retry = uploads.retries.get(&info.chunk_index).copied();
            match retry {
                Some(retry) if self.now_ms() < retry.due_ms && retry.is_unreadable => continue,
                Some(retry) if waits && self.now_ms() < retry.due_ms => break,
                _ => {}
            }
            let failures = retry.map_or(0, |retry| retry.failures);
            let tried = self.upload_chunk(&*uploader, &info, failures > 0)?;
            if tried == Tried::Stored {
                uploads.retries.remove(&info.chunk_index);
            } else {
                let failures = failures.saturating_add(1);
                let pause_ms = self.config.upload_pause(failures).as_millis() as u64;
                let due_ms = self.now_ms().saturating_add(pause_ms);
                let is_unreadable = tried == Tried::Unreadable;
                let retry = Retry { failures, due_ms, is_unreadable };
                uploads.retries.insert(info.chunk_index, retry);
            }
            if tried == Tried::Refused {
                break;
            }
        }
        Ok(())
    }

    /// When the next upload is due; `None` if none waits.
    pub(super) fn next_upload_ms(&self) -> Option<u64> {
        self.uploads.lock().retries.values().map(|retry| retry.due_ms).min()
    }

    /// One try. An error is one of the chunk that is being written.
    fn upload_chunk(
        &self,
        uploader: &dyn ChunkUploader,
        info: &ChunkInfo,
        is_retry: bool,
    ) -> Result<Tried> {
        let chunk_index = info.chunk_index;
        let key = self.chunk_key(uploader, chunk_index);
        let loaded = Chunk::load(&*self.storage, &self.layout, chunk_index, true, Vec::new());
        let read = loaded.and_then(|chunk| ChunkMeta::of(&chunk).map(|meta| (chunk, meta)));
        let (chunk, meta) = match read {
            Ok(read) => read,
            Err(error) => return Ok(self.note_unreadable(chunk_index, &error)),
        };
        if is_retry {
            count(&self.metrics.upload_retries, 1);
        }
        self.record(NO_SEGMENT, chunk_index, ManifestEvent::UploadStarted { key: &key })?;
        if planted::has(ManifestBug::UploadFlagFirst) {
            self.mark_uploaded(chunk_index)?;
        }
        match store(uploader, &key, &chunk, &meta) {
            Ok(etag) => {
                let done = ManifestEvent::UploadDone { key: &key, etag: &etag };
                self.record(NO_SEGMENT, chunk_index, done)?;
                self.commit()?;
                self.mark_uploaded(chunk_index)?;
                count(&self.metrics.uploads, 1);
                Ok(Tried::Stored)
            }
            Err(error) => {
                tracing::warn!(%error, chunk_index, key, "upload of a manifest chunk failed");
                count(&self.metrics.upload_failures, 1);
                let failed = ManifestEvent::UploadFailed { key: &key, reason: error.reason };
                self.record(NO_SEGMENT, chunk_index, failed)?;
                self.commit()?;
                Ok(Tried::Refused)
            }
        }
    }

    fn chunk_key(&self, uploader: &dyn ChunkUploader, chunk_index: u64) -> String {
        let (stream_id, lineage) = (self.layout.stream_id(), uploader.lineage());
        StoredChunkName { stream_id, lineage, chunk_index }.key(&self.config.upload_prefix)
    }

    /// Compares what is marked as uploaded with what the store holds of this lineage, and
    /// uploads the rest again. A manifest that goes on in a lineage of its own has none of
    /// its chunks there yet.
    pub fn check_uploads(&self) -> Result<(), UploadError> {
        let Some(uploader) = self.uploader() else { return Ok(()) };
        let (stream_id, lineage) = (self.layout.stream_id(), uploader.lineage());
        let keys = uploader
            .list(&StoredChunkName::stream_prefix(&self.config.upload_prefix, stream_id))?;
        let stored: BTreeSet<u64> = keys
            .iter()
            .filter_map(|key| StoredChunkName::parse(key))
            .filter(|name| (name.stream_id, name.lineage) == (stream_id, lineage))
            .map(|name| name.chunk_index)
            .collect();
        self.files.lock().writer.forget_uploads_but(&stored);
        self.notify();
        Ok(())
    }

    /// A chunk that cannot be read cannot be uploaded. Commits, other chunks and
    /// snapshots go on; it stays until it can be read, or is restored.
    fn note_unreadable(&self, chunk_index: u64, error: &AofError) -> Tried {
        tracing::warn!(%error, chunk_index, "a manifest chunk cannot be read, nor uploaded");
        if matches!(error, AofError::Corrupt(_)) {
            count(&self.metrics.crc_errors, 1);
        }
        count(&self.metrics.upload_failures, 1);
        Tried::Unreadable
    }

    fn mark_uploaded(&self, chunk_index: u64) -> Result<()> {
        let mut files = self.files.lock();
        let marked = files.writer.mark_uploaded(chunk_index);
        self.publish(&files);
        marked
    }

    /// Removes the chunks that nothing needs here any more. Where uploads are required
    /// the store is asked about each first: a bit in a file is not enough to delete on.
    pub(super) fn retain(&self, uploader: Option<Arc<dyn ChunkUploader>>) -> Result<()> {
        let _right = self.uploads.lock();
        let required = self.config.upload_required;
        let candidates: Vec<ChunkInfo> = {
            let files = self.files.lock();
            removable(files.writer.sealed(), files.floor, required).copied().collect()
        };
        for info in candidates {
            if required && !self.is_stored(uploader.as_deref(), &info) {
                break;
            }
            let mut files = self.files.lock();
            let removed = files.writer.remove_oldest();
            self.publish(&files);
            count(&self.metrics.chunks_removed, removed?.map_or(0, |_| 1));
        }
        self.remove_strays()
    }

    /// Chunks before a hole were removed once and came back with a power cut. Where
    /// uploads are required nobody has asked the store about them: they stay.
    fn remove_strays(&self) -> Result<()> {
        let mut files = self.files.lock();
        let is_covered = match (files.floor, files.writer.strays().last()) {
            (Some(floor), Some(&newest)) => newest < floor,
            _ => false,
        };
        if !is_covered || self.config.upload_required {
            return Ok(());
        }
        let removed = files.writer.remove_strays();
        self.publish(&files);
        count(&self.metrics.chunks_removed, removed?);
        Ok(())
    }

    fn is_stored(&self, uploader: Option<&dyn ChunkUploader>, info: &ChunkInfo) -> bool {
        if planted::has(ManifestBug::TrustUploadFlag) {
            return true;
        }
        let Some(uploader) = uploader else { return false };
        let key = self.chunk_key(uploader, info.chunk_index);
        match uploader.head(&key) {
            Ok(Some(stored)) if is_same(&stored, info.committed_len, info.chunk_crc64) => true,
            Ok(_) => {
                // It is uploaded again by the next round.
                tracing::warn!(key, "the store does not have a chunk that is marked as uploaded");
                self.files.lock().writer.forget_upload(info.chunk_index);
                false
            }
            Err(error) => {
                tracing::warn!(%error, key, "the store cannot be asked about a manifest chunk");
                false
            }
        }
    }
}

fn is_same(stored: &StoredChunk, len: u64, chunk_crc64: u64) -> bool {
    stored.len == len && stored.meta.chunk_crc64 == chunk_crc64
}

/// Stores a chunk, unless it is there: an earlier try may have succeeded without anybody
/// hearing of it.
fn store(
    uploader: &dyn ChunkUploader,
    key: &str,
    chunk: &Chunk,
    meta: &ChunkMeta,
) -> Result<String, UploadError> {
    let refused = |detail: String| Err(UploadError { reason: ReasonCode::TRANSIENT, detail });
    let len = chunk.bytes().len() as u64;
    let etag = match uploader.head(key)? {
        Some(stored) if is_same(&stored, len, meta.chunk_crc64) => stored.etag,
        Some(_) => return refused(format!("{key}: another object stands there")),
        None => uploader.upload(chunk.index(), key, chunk.bytes(), meta)?,
    };
    if etag.len() > KEY_LEN_MAX {
        return refused(format!("{key}: an etag of {} bytes", etag.len()));
    }
    Ok(etag)
}
