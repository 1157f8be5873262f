//! The compressed form of a sealed segment: a warm file and a cold object are the
//! same bytes. Spec: docs/format.md#warm-and-cold-artifacts
//!
//! ```text
//! data frames    one zstd frame each, ending on a record boundary; together they are
//!                the segment's first durable_bytes, its header included
//! footer frame   one zstd frame: the segment's 64 footer bytes
//! index frame    a skippable frame: what the segment is, what each data frame holds
//! seek table     a skippable frame: where each frame is and its checksum
//! ```
//!
//! This is the Zstandard seekable format, so every zstd tool decompresses an artifact
//! to the segment without the gap in front of its footer. Compressing is not done
//! here: this module owns the bytes around the zstd frames ([`ArtifactIndex`]), the
//! names of artifacts, and the metadata that an object store keeps beside them.

mod frame_index;
mod index;
mod metadata;
mod name;
mod seek_table;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use index::{ARTIFACT_TAIL_LEN_MAX, ArtifactFrame, ArtifactIndex, ArtifactSummary};
pub use metadata::ArtifactMetadata;
pub use name::{COLD_KEY_LEN_MAX, ColdKey, ColdTailName, WarmFileName};

/// Most data frames an artifact has: a segment of the largest size in the smallest
/// frames.
pub const ARTIFACT_FRAME_COUNT_MAX: usize = 1 << 20;
/// Longest data frame that holds more than one record, decompressed. A single longer
/// record makes its frame as long as it is.
pub const ARTIFACT_FRAME_LEN_MAX: u32 = 16 << 20;
