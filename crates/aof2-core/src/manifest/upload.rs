//! The way to the cold tier: what a chunk store must do, and what a try came to.
//!
//! A chunk's key is never used for anything else, and its bytes never change once it is
//! sealed. So an upload that failed may have happened all the same: before trying again
//! the store is asked, and an object with the same checksum counts as ours.

use std::fmt::Debug;

use super::reader::Chunk;
use crate::error::Result;
use crate::format::manifest::{ManifestEvent, ReasonCode};

/// What is said about an object beside its bytes, to validate it without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMeta {
    /// Checksum of the records.
    pub chunk_crc64: u64,
    /// Ordinal of the first record.
    pub base_record: u64,
    /// Records in the chunk.
    pub record_count: u64,
    /// The latest snapshot that a marker in the chunk speaks of, 0 for none.
    pub snapshot_id: u64,
}

impl ChunkMeta {
    /// What a chunk says about itself.
    pub fn of(chunk: &Chunk) -> Result<Self> {
        let mut meta = Self {
            chunk_crc64: chunk.header().chunk_crc64,
            base_record: chunk.header().base_record,
            record_count: 0,
            snapshot_id: 0,
        };
        for placed in chunk.records() {
            meta.record_count += 1;
            if let ManifestEvent::SnapshotMarker { snapshot_id, .. } = placed?.record.event {
                meta.snapshot_id = snapshot_id;
            }
        }
        Ok(meta)
    }
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// Length in bytes.
    pub len: u64,
    /// The store's tag for these contents.
    pub etag: String,
    /// What was said about it when it was stored.
    pub meta: ChunkMeta,
}

/// Why a store did not do what it was asked to. Whether it happened is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {detail}", reason.describe())]
pub struct UploadError {
    /// What goes into the manifest.
    pub reason: ReasonCode,
    /// For people.
    pub detail: String,
}

/// A place where sealed chunks are kept for good. Calls may block; the manifest makes
/// them without holding a lock that recording needs.
pub trait ChunkUploader: Send + Sync + Debug {
    /// Stores a chunk durably under a key and gives the store's tag. What stood there
    /// before may only be the same bytes.
    fn upload(
        &self,
        chunk_index: u64,
        key: &str,
        bytes: &[u8],
        meta: &ChunkMeta,
    ) -> Result<String, UploadError>;

    /// What stands under a key.
    fn head(&self, key: &str) -> Result<Option<StoredChunk>, UploadError>;

    /// All keys that start with `prefix`, in any order.
    fn list(&self, prefix: &str) -> Result<Vec<String>, UploadError>;

    /// An object's bytes, `None` if there is no such object. One that is longer than
    /// `len_max` is refused.
    fn fetch(&self, key: &str, len_max: u64) -> Result<Option<Vec<u8>>, UploadError>;
}
