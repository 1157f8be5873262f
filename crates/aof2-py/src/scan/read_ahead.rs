//! Records handed out one by one from batches that were read with the GIL released.
//!
//! Releasing the GIL for every record would let another busy thread take it every
//! time; a batch is worth it.

use aof2_core::{Batch, Record, ScanOptions};

use crate::sizes::{READ_AHEAD_BYTES, READ_AHEAD_RECORDS};

/// The options for a scan whose records are handed out by [`ReadAhead`].
pub fn read_ahead_options(options: ScanOptions) -> ScanOptions {
    ScanOptions { batch_bytes: READ_AHEAD_BYTES, batch_records: READ_AHEAD_RECORDS, ..options }
}

/// A batch and how much of it was handed out.
#[derive(Default)]
pub struct ReadAhead {
    batch: Option<Batch>,
    next: usize,
}

impl ReadAhead {
    /// The next record of the batch.
    pub fn pop(&mut self) -> Option<Record> {
        let record = self.peek()?;
        self.next += 1;
        if self.batch.as_ref().is_some_and(|batch| self.next >= batch.len()) {
            // Its segment need not stay mapped for this.
            self.batch = None;
        }
        Some(record)
    }

    fn peek(&self) -> Option<Record> {
        self.batch.as_ref()?.get(self.next)
    }

    /// Offset of the next record of the batch.
    pub fn next_offset(&self) -> Option<u64> {
        self.peek().map(|record| record.offset)
    }

    pub fn refill(&mut self, batch: Batch) {
        *self = Self { batch: Some(batch), next: 0 };
    }
}
