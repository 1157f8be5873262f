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
//! Roles: `chunk` and `writer` write, `committed`, `reader` and `cursor` read, `index`
//! and `fold` add up, `snapshot` and `replay` write that down and bring it back,
//! `snapshots` knows what must be safe before that, `uploads` and `retention` move chunks
//! to the cold tier and off the disk, `restore` brings them back, `upkeep` knows when what
//! is due, `verify` checks, and `handle` puts it together as [`Manifest`].
//! docs/manifest.md tells the whole story.

mod chunk;
mod committed;
mod config;
mod cursor;
mod damage;
mod directory;
mod divergence;
mod fold;
mod handle;
mod index;
mod layout;
mod metrics;
mod mode;
mod position;
mod reader;
mod replay;
mod restore;
mod retention;
mod snapshot;
mod snapshots;
mod staging;
mod upkeep;
mod upload;
mod uploads;
mod verify;
mod watch;
mod writer;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use chunk::ChunkInfo;
pub use config::{BLOB_LEN_MAX, KEY_LEN_MAX, ManifestConfig};
pub use cursor::ManifestCursor;
pub use directory::DirectoryUploader;
pub use divergence::{Divergence, DivergenceKind, ScannedSegment, find_divergences};
pub use fold::Folded;
pub use handle::Manifest;
pub use index::{ManifestIndex, UNRESOLVED_BYTES_MAX, UNRESOLVED_COUNT_MAX};
pub use layout::{ManifestLayout, ManifestListing};
pub use metrics::ManifestMetrics;
pub use mode::ManifestMode;
pub use position::ManifestPosition;
pub use reader::{Chunk, ManifestReader, PlacedRecord, Records};
pub use replay::{ReplayReport, replay};
pub use restore::{RestoreReport, restore_chunks};
pub use retention::{SEALED_CHUNKS_KEPT, removable};
pub use snapshot::{
    PrunedSnapshots, RejectedSnapshot, SnapshotInfo, list_snapshots, load_newest_snapshot,
    load_snapshot, next_snapshot_id, prune_snapshots, write_snapshot,
};
pub use upload::{ChunkMeta, ChunkUploader, StoredChunk, UploadError};
pub use verify::{
    ChunkCheck, ManifestProblem, ManifestProblemKind, ManifestReport, SnapshotCheck,
    verify_manifest, verify_manifest_with,
};
pub use writer::{ManifestWriter, Reconciled};
