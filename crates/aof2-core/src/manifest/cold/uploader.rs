//! The way to the cold tier: what a chunk store must do, and what a try came to.
//!
//! A chunk's key is never used for anything else, and its bytes never change once it is
//! sealed. So an upload that failed may have happened all the same: before trying again
//! the store is asked, and an object with the same checksum counts as ours.

use std::fmt::Debug;

use crate::error::Result;
use crate::format::StreamId;
use crate::format::manifest::{ManifestEvent, ReasonCode, StoredChunkName};
use crate::manifest::chunks::Chunk;

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

/// The chunks of a stream that a store holds, each in the one lineage that counts, in
/// order.
///
/// A directory that goes on with a log uploads its manifest in a lineage of its own, from
/// the first chunk on that the store did not have for it. So of the latest lineage every
/// chunk counts, and of each earlier one those before the first of the later ones.
pub(in crate::manifest) fn stored_chunks(
    uploader: &dyn ChunkUploader,
    prefix: &str,
    stream_id: StreamId,
) -> Result<Vec<StoredChunkName>, UploadError> {
    let keys = uploader.list(&StoredChunkName::stream_prefix(prefix, stream_id))?;
    let named = keys.iter().filter_map(|key| StoredChunkName::parse(key));
    let mut all: Vec<StoredChunkName> = named.filter(|name| name.stream_id == stream_id).collect();
    all.sort_unstable_by_key(|name| (std::cmp::Reverse(name.lineage), name.chunk_index));
    let mut counted: Vec<StoredChunkName> = Vec::new();
    let mut before = u64::MAX;
    for of_one in all.chunk_by(|a, b| a.lineage == b.lineage) {
        counted.extend(of_one.iter().filter(|name| name.chunk_index < before));
        before = of_one.first().map_or(before, |first| before.min(first.chunk_index));
    }
    counted.sort_unstable_by_key(|name| name.chunk_index);
    Ok(counted)
}

/// A place where sealed chunks are kept for good. Calls may block; the manifest makes
/// them without holding a lock that recording needs.
pub trait ChunkUploader: Send + Sync + Debug {
    /// The lineage that chunks are uploaded under: which of the directories that continued
    /// a log one after the other this is.
    fn lineage(&self) -> u32 {
        0
    }

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Keys(Vec<String>);

    impl ChunkUploader for Keys {
        fn upload(&self, _: u64, _: &str, _: &[u8], _: &ChunkMeta) -> Result<String, UploadError> {
            Ok(String::new())
        }
        fn head(&self, _: &str) -> Result<Option<StoredChunk>, UploadError> {
            Ok(None)
        }
        fn list(&self, prefix: &str) -> Result<Vec<String>, UploadError> {
            Ok(self.0.iter().filter(|key| key.starts_with(prefix)).cloned().collect())
        }
        fn fetch(&self, _: &str, _: u64) -> Result<Option<Vec<u8>>, UploadError> {
            Ok(None)
        }
    }

    /// A fenced writer may still have uploaded chunks of its own: they are not mixed with
    /// those of the writer that went on.
    #[test]
    fn a_later_lineage_hides_what_earlier_ones_have_from_its_first_chunk_on() {
        let stream_id = StreamId::from_u64(7);
        let name = |(lineage, chunk_index)| StoredChunkName { stream_id, lineage, chunk_index };
        let stored = [(0, 0), (0, 1), (1, 1), (1, 2), (1, 3), (4, 3), (4, 4), (2, 4), (2, 9)];
        let keys = stored.map(|stored| name(stored).key("logs")).to_vec();
        let found = stored_chunks(&Keys(keys), "logs", stream_id).unwrap();
        assert_eq!(found, [(0, 0), (1, 1), (1, 2), (4, 3), (4, 4)].map(name));
    }
}
