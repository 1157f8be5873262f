//! Records on their way from a caller to a chunk.

use crate::error::Result;
use crate::manifest::chunks::ManifestWriter;

#[derive(Clone, Copy, Debug)]
struct Staged {
    len: usize,
    is_news: bool,
}

/// Encoded records in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    records: Vec<Staged>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Where the next record is encoded to. [`Batch::push`] follows.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes in the record that was just encoded into the buffer.
    pub(super) fn push(&mut self, len: usize, is_news: bool) {
        self.records.push(Staged { len, is_news });
    }

    /// Moves everything from `other` behind what is here.
    pub(super) fn take(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            self.bytes.append(&mut other.bytes);
            self.records.append(&mut other.records);
        }
    }

    /// Appends all records to the writer's chunks. What an error keeps from being
    /// appended stays here for the next time.
    pub(super) fn feed(&mut self, writer: &mut ManifestWriter) -> Result<()> {
        let (mut fed, mut offset, mut outcome) = (0, 0, Ok(()));
        for staged in &self.records {
            let record = self.bytes.get(offset..offset + staged.len).unwrap_or_default();
            if let Err(error) = writer.append_encoded(record, staged.is_news) {
                outcome = Err(error);
                break;
            }
            offset += staged.len;
            fed += 1;
        }
        self.records.drain(..fed);
        self.bytes.drain(..offset);
        outcome
    }
}
