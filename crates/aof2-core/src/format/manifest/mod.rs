//! The bytes of the manifest: chunks, the records in them, snapshots, names.
//!
//! The manifest is the log of what happened to segments as they moved between
//! tiers. Its records are written into chunk files ([`ChunkHeader`], then
//! [`ManifestRecord`]s); from time to time the state that they add up to is
//! written down as a [`SnapshotImage`]. Like the rest of
//! [`format`](crate::format) this is pure byte code: it opens no file and believes
//! no length. Spec: docs/format.md#manifest-chunks

mod chunk;
mod name;
mod payload;
mod reason;
mod record;
mod snapshot;
mod snapshot_entry;
mod state;

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

pub use chunk::{
    CHUNK_BYTES_DEFAULT, CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_GROWTH_BYTES, CHUNK_HEADER_LEN,
    ChunkFlags, ChunkHeader,
};
pub use name::{ChunkFileName, SnapshotFileName, StoredChunkName, manifest_dir};
pub use payload::ManifestEvent;
pub use reason::ReasonCode;
pub use record::{
    EVICTED_WARM, ManifestRecord, ManifestRecordHeader, PAYLOAD_LEN_MAX, RECORD_ALIGN,
    RECORD_HEADER_LEN, TEXT_LEN_MAX,
};
pub use snapshot::{SNAPSHOT_LEN_MAX, SNAPSHOT_LEN_MIN, SnapshotImage};
pub use state::{FoldCounts, ManifestSegment, PendingDelete, PendingUpload, UnresolvedRecord};
