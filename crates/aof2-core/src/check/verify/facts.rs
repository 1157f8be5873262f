//! One segment as it is, without judging: its records, its checksum, what is behind them.

use std::ops::Range;

use super::compressed::{Flaw, segment_bytes_for};
use super::ends::{Body, Ends, map_file};
use super::thaw::thaw;
use super::walk::{Hints, Walk, walk};
use crate::error::Result;
use crate::format::{ArtifactIndex, SEGMENT_HEADER_LEN, StreamId, crc64};
use crate::io::Storage;

/// Everything there is to know about a segment.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) ends: Ends,
    pub(super) walk: Walk,
    /// Intact frames of a compressed segment that readers refuse, with their records.
    pub(super) refused: Vec<(Flaw, Range<u64>)>,
    /// Checksum over what the footer covers, if it is all there.
    pub(super) crc64: Option<u64>,
    /// First byte behind the records and before the footer that is not zero.
    pub(super) dirty_at: Option<u64>,
}

impl Facts {
    /// Reads the whole segment once.
    pub(super) fn gather(
        storage: &dyn Storage,
        ends: Ends,
        stream_id: StreamId,
        hints: &Hints,
    ) -> Result<Self> {
        match &ends.body {
            Body::File => {}
            Body::Warm(compressed) => {
                let thawed = thaw(compressed, &ends.codec(stream_id), hints)?;
                let (walk, crc64, refused) = (thawed.walk, thawed.crc64, thawed.refused);
                let mut ends = ends;
                // Without an index the frames that are lost had not been counted in.
                ends.segment_bytes = ends.segment_bytes.max(segment_bytes_for(walk.end));
                ends.file_len = u64::from(ends.segment_bytes);
                return Ok(Self { walk, crc64, refused, dirty_at: None, ends });
            }
            Body::Cold(index) => {
                let walk = match index {
                    Ok(index) => walk_of_index(index),
                    Err(_) => walk_between(hints),
                };
                return Ok(Self { walk, crc64: None, refused: Vec::new(), dirty_at: None, ends });
            }
        }
        let map = map_file(storage, &ends.path, ends.file_len)?;
        let bytes = map.as_ref().and_then(|m| m.bytes(0, m.len())).unwrap_or_default();
        let slot = ends.slot() as usize;
        let limit = hints.required_end.map_or(slot, |end| end as usize).min(bytes.len());
        let walk = walk(&ends.codec(stream_id), &bytes[..limit], hints);
        let behind = bytes.get(walk.end as usize..slot.min(bytes.len())).unwrap_or_default();
        let dirty_at = first_dirty(behind).map(|at| u64::from(walk.end) + at as u64);
        let covered = ends.sealed().and_then(|f| bytes.get(..f.durable_bytes as usize));
        Ok(Self { crc64: covered.map(crc64), walk, refused: Vec::new(), dirty_at, ends })
    }

    /// Whether nothing was ever written into the file.
    pub(super) fn is_blank(&self) -> bool {
        matches!(self.ends.body, Body::File)
            && matches!((&self.ends.header, &self.ends.footer), (Ok(None), Ok(None)))
            && self.walk.last_position == 0
            && self.dirty_at.is_none()
    }

    /// Logical offsets of all records that the segment has or had.
    pub(super) fn records(&self) -> Range<u64> {
        self.walk.first_offset..self.walk.end_offset
    }

    /// Byte of the file where this byte of the segment is found.
    pub(super) fn place_of(&self, position: u32) -> u64 {
        match self.ends.compressed() {
            Some(compressed) => compressed.place_of(position),
            None => u64::from(position),
        }
    }

    /// Byte of the file where the footer is found.
    pub(super) fn footer_place(&self) -> u64 {
        match self.ends.compressed() {
            Some(compressed) => compressed.footer_offset,
            None => u64::from(self.ends.slot()),
        }
    }
}

impl Ends {
    /// Whether the file holds a footer or a record of this stream, or nothing at all:
    /// then it may be ours although its header is not.
    pub(super) fn may_be_ours(&self, storage: &dyn Storage, stream_id: StreamId) -> Result<bool> {
        if self.sealed().is_some() || self.file_len < SEGMENT_HEADER_LEN as u64 {
            return Ok(true);
        }
        let facts = Facts::gather(storage, self.clone(), stream_id, &Hints::default())?;
        let blank = facts.walk.stopped.is_none() && facts.dirty_at.is_none();
        Ok(facts.walk.last_position != 0 || blank)
    }
}

/// What the index of a segment that is out of reach says.
fn walk_of_index(index: &ArtifactIndex) -> Walk {
    let summary = &index.summary;
    let mut walk = Walk::new(summary.first_offset, summary.durable_bytes);
    walk.end_offset = summary.end_offset();
    walk.intact_count = summary.record_count;
    walk.last_position = index.frames.last().map_or(0, |frame| frame.position);
    let known = |timestamp_ms| Some(timestamp_ms).filter(|_| summary.record_count > 0);
    walk.first_timestamp_ms = known(summary.first_timestamp_ms);
    walk.last_timestamp_ms = known(summary.last_timestamp_ms);
    walk
}

/// A segment of which only the neighbours tell.
fn walk_between(hints: &Hints) -> Walk {
    let start = hints.previous_end.or(hints.next_first).unwrap_or(0);
    let mut walk = Walk::new(start, hints.required_end.unwrap_or(SEGMENT_HEADER_LEN as u32));
    walk.end_offset = hints.next_first.unwrap_or(start).max(start);
    walk
}

fn first_dirty(bytes: &[u8]) -> Option<usize> {
    const CHUNK: usize = 4096;
    for (i, chunk) in bytes.chunks(CHUNK).enumerate() {
        // Without an early exit inside, so that it runs at memory speed.
        if chunk.iter().fold(0, |all, byte| all | byte) != 0 {
            return chunk.iter().position(|&byte| byte != 0).map(|at| i * CHUNK + at);
        }
    }
    None
}
