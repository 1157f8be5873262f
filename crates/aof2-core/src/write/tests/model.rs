//! What a log must hold: the plain list of what was appended, and how much of it
//! was promised.

use std::sync::Arc;

use fastrand::Rng;

use crate::io::Storage;
use crate::read::{AofReader, Record, Scan, ScanOptions};

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// Every record ever appended, by logical offset.
    pub(super) records: Vec<Vec<u8>>,
    /// Records below this were reported durable.
    pub(super) acked: u64,
    /// Records below this may have been trimmed.
    pub(super) trimmed: u64,
    pub(super) incarnation: u64,
}

impl Model {
    /// A payload unlike any other, so that a stale record never looks like a new one.
    pub(super) fn payload(&self, len: usize) -> Vec<u8> {
        let tag = self.records.len() as u64 * 1_000 + self.incarnation;
        let mut rng = Rng::with_seed(tag);
        let mut bytes: Vec<u8> = tag.to_le_bytes().to_vec();
        while bytes.len() < len {
            bytes.extend(rng.u64(..).to_le_bytes());
        }
        bytes.truncate(len.max(1));
        bytes
    }

    /// After a crash: the log kept `count` records; the others never existed.
    pub(super) fn keep(&mut self, count: u64) {
        self.records.truncate(count as usize);
        self.acked = count;
        self.incarnation += 1;
    }

    pub(super) fn check_record(&self, record: &Record) -> Result<(), String> {
        match self.records.get(record.offset as usize) {
            Some(expected) if *expected == *record.payload => Ok(()),
            Some(_) => Err(format!("record {} has other contents than appended", record.offset)),
            None => Err(format!("record {} was never appended", record.offset)),
        }
    }

    /// The scan gives every record from where it starts to `end`, in order.
    pub(super) fn check_scan(&self, scan: Scan, start: u64, end: u64) -> Result<(), String> {
        let mut expected = start;
        for record in scan {
            let record = record.map_err(|e| format!("at record {expected}: {e}"))?;
            if record.offset != expected {
                return Err(format!("record {} where {expected} should be", record.offset));
            }
            self.check_record(&record)?;
            expected += 1;
        }
        if expected != end {
            return Err(format!("scan ended at {expected}, not {end}"));
        }
        Ok(())
    }

    /// What a reader in another process may see of a log that nobody recovered yet.
    /// Returns how many records it calls durable.
    pub(super) fn check_reader(
        &self,
        storage: Arc<dyn Storage>,
        root: &str,
    ) -> Result<u64, String> {
        let reader = match AofReader::open_on(storage, root) {
            Ok(reader) => reader,
            // A log whose creation was cut off is not there yet.
            Err(crate::AofError::NotALog { .. }) if self.acked == 0 => return Ok(0),
            Err(e) => return Err(format!("reader: {e}")),
        };
        let durable = reader.watermarks().map_err(|e| format!("reader: {e}"))?.durable;
        if durable > self.records.len() as u64 {
            return Err(format!("reader calls {durable} records durable"));
        }
        let earliest = reader.earliest_offset().map_err(|e| format!("reader: {e}"))?;
        let scan = reader.scan(ScanOptions::default()).map_err(|e| format!("reader: {e}"))?;
        self.check_scan(scan, earliest.min(durable), durable)
            .map_err(|e| format!("reader: {e}; {}", reader.describe()))?;
        Ok(durable)
    }
}
