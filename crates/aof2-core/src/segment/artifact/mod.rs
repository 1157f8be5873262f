//! A sealed segment compressed: made from the segment file, read as windows, made into
//! the segment file again.
//!
//! The bytes are those of [`crate::format::ArtifactIndex`] and the zstd frames it
//! points at; where they are kept is the business of an [`ArtifactSource`]. Everything
//! read from one is hostile: lengths are checked before anything is allocated, every
//! frame proves itself by its checksum, and the whole segment by its own before a
//! segment file gets its name. Nothing here knows about tiers.

mod frames;
mod hydrate;
mod kept_file;
mod read;
mod salvage;
mod source;
mod stream;
mod write;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;

pub use hydrate::hydrate;
pub use read::Artifact;
pub(crate) use salvage::{Stretch, frame_at, stretches};
pub use source::{ArtifactSource, FileSource};
pub use write::{ArtifactOptions, Written, write_artifact};
