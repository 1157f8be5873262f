//! The manifest: the log of what happened to segments as they moved between tiers.
//!
//! Every transition of a segment (opened, sealed, compressed, uploaded, hydrated,
//! evicted) is one record. Records stand in chunk files; what they add up to is the
//! [`ManifestIndex`]; from time to time the index is written down as a snapshot, so that
//! replay need not start at the beginning, and old chunks leave the disk.
//!
//! The layer depends on `format` and `io` and knows nothing of the log above it. Its
//! invariants:
//!
//! * what a commit returned for is there after any crash, in order, once;
//! * what was never recorded never appears, and an uncommitted tail is the only thing
//!   that is ever trimmed;
//! * anything else that does not validate stops the reader, with chunk, segment and byte
//!   named;
//! * the index is the fold of the records, whichever snapshot replay started from.
//!
//! Roles: `chunks` is the records on disk, `index` what they add up to, `snapshot` writes
//! that down and brings it back, `cold` is chunks in the cold tier, `verify` checks, and
//! `handle` puts it together as [`Manifest`].
//! docs/manifest.md tells the whole story.

mod chunks;
mod cold;
mod config;
mod divergence;
mod handle;
mod index;
mod mode;
mod snapshot;
mod verify;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use chunks::{
    Chunk, ChunkInfo, ManifestCursor, ManifestLayout, ManifestListing, ManifestPosition,
    ManifestReader, ManifestWriter, PlacedRecord, Reconciled, Records,
};
pub use cold::{
    ChunkMeta, ChunkUploader, DirectoryUploader, RestoreReport, StoredChunk, UploadError,
    restore_chunks,
};
pub use config::{BLOB_LEN_MAX, KEY_LEN_MAX, ManifestConfig};
pub use divergence::{Divergence, DivergenceKind, ScannedSegment, find_divergences};
pub use handle::{Manifest, ManifestMetrics, SEALED_CHUNKS_KEPT, removable};
pub use index::{Folded, ManifestIndex, UNRESOLVED_BYTES_MAX, UNRESOLVED_COUNT_MAX};
pub use mode::ManifestMode;
pub use snapshot::{
    PrunedSnapshots, RejectedSnapshot, ReplayReport, SnapshotInfo, list_snapshots,
    load_newest_snapshot, load_snapshot, next_snapshot_id, prune_snapshots, replay, write_snapshot,
};
pub use verify::{
    ChunkCheck, ManifestProblem, ManifestProblemKind, ManifestReport, SnapshotCheck,
    verify_manifest, verify_manifest_with,
};
