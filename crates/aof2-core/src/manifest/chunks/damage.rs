//! How damage in a chunk is told: file, chunk, segment, byte, records.

use std::ops::Range;
use std::path::Path;

use crate::error::{AofError, Damage};
use crate::format::SegmentId;

/// Where in the manifest something is wrong.
#[derive(Clone, Debug)]
pub(super) struct Spot<'a> {
    pub(super) path: &'a Path,
    pub(super) chunk_index: u64,
    /// The segment that the record at `offset` says it is about, where one can be read.
    pub(super) segment_id: Option<SegmentId>,
    pub(super) offset: u64,
    /// Ordinals of the records that cannot be trusted.
    pub(super) records: Range<u64>,
}

impl Spot<'_> {
    pub(super) fn corrupt(self, reason: impl std::fmt::Display) -> AofError {
        let segment = match self.segment_id {
            Some(id) => format!(", segment {id}"),
            None => String::new(),
        };
        AofError::Corrupt(Box::new(Damage {
            path: self.path.to_owned(),
            offset: self.offset,
            records: self.records,
            reason: format!("manifest chunk {}{segment}: {reason}", self.chunk_index),
        }))
    }
}
