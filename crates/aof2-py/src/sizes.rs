//! How much is done at a time.
//!
//! Going back and forth between Python and the core costs, and so does holding things. These
//! numbers weigh the two. None of them changes what a call does; where a caller may choose,
//! the option's default is the core's.

use aof2_core::format::RECORD_ALIGN;
use aof2_core::{Aof, SegmentFormat};

/// Payload bytes up to which an append that finds room keeps the GIL: copying them
/// takes less time than giving the GIL away and getting it back.
pub const APPEND_WITH_GIL_BYTES: usize = 64 << 10;

/// What `append_many` appends at a time: enough to make the costs of a batch small, few
/// enough that single appends of other threads are not kept waiting.
pub const APPEND_MANY_BYTES: usize = 512 << 10;

/// What `append_arrow` appends at a time. Enough to make what happens once per batch
/// disappear; a segment whose rest is smaller than that is left early, so not more.
pub const APPEND_ARROW_BYTES: usize = 64 << 10;

/// A batch lies in one segment and leaves what it does not fit into unused, so it is at
/// most this part of a segment.
const BATCHES_PER_SEGMENT: usize = 8;

/// What a record needs besides its payload: the longest header and the longest padding.
const RECORD_OVERHEAD: usize = SegmentFormat::Full.header_len() + RECORD_ALIGN;

/// What `Scan` and `Follow` read ahead, with the GIL released: enough to make that cheap,
/// few enough that nobody notices who wants only one record.
pub const READ_AHEAD_BYTES: usize = 256 << 10;
pub const READ_AHEAD_RECORDS: usize = 1024;

/// An Arrow batch is put together from parts of at most this many bytes and records: few
/// enough that a part is still cached when it is copied.
pub const ARROW_PART_BYTES: usize = 128 << 10;
pub const ARROW_PART_RECORDS: usize = 4 << 10;

/// Free buffers that an Arrow scan keeps of each type: a reader that works on one batch
/// while the next is built needs two per column.
pub const KEPT_BUFFERS: usize = 8;
/// Bytes of them.
pub const KEPT_BYTES: usize = 16 << 20;

/// The records of one batch, as they are counted.
pub struct BatchRoom {
    bytes_max: usize,
    bytes: usize,
}

impl BatchRoom {
    /// Room for `bytes` in a batch; for less where the log's segments are small.
    pub fn new(log: &Aof, bytes: usize) -> Self {
        let segment_bytes = usize::try_from(log.config().segment_bytes_max).unwrap_or(usize::MAX);
        Self { bytes_max: bytes.min(segment_bytes / BATCHES_PER_SEGMENT), bytes: 0 }
    }

    /// Begins another batch.
    pub fn clear(&mut self) {
        self.bytes = 0;
    }

    /// Whether a record with such a payload still goes into the batch. The first one always
    /// does.
    #[inline]
    pub fn take(&mut self, payload_len: usize) -> bool {
        let is_first = self.bytes == 0;
        self.bytes += payload_len + RECORD_OVERHEAD;
        is_first || self.bytes <= self.bytes_max
    }
}
