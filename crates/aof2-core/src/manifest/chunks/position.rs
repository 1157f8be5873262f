//! Places in the manifest.

use std::fmt;

use crate::format::manifest::CHUNK_HEADER_LEN;

/// A byte of a chunk at which a record starts, or at which the next one will.
/// Positions order as the records do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestPosition {
    /// The chunk.
    pub chunk_index: u64,
    /// Byte in the chunk's file.
    pub chunk_offset: u64,
}

impl ManifestPosition {
    /// The first record of a chunk.
    pub const fn start_of(chunk_index: u64) -> Self {
        Self { chunk_index, chunk_offset: CHUNK_HEADER_LEN as u64 }
    }
}

/// `chunk:offset`, both decimal.
impl fmt::Display for ManifestPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.chunk_index, self.chunk_offset)
    }
}
