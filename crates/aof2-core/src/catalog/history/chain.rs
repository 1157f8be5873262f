//! Whether the operation log is one history: every batch can be read, is in its place and
//! follows from the one before.

use std::ops::Range;

use crate::catalog::open::Catalog;
use crate::catalog::reader::CatalogReader;
use crate::catalog::recover::OperationLog;
use crate::catalog::replay::{batch_of, divergence};
use crate::error::Result;

/// What an operation log holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationLogReport {
    /// First batch that is there.
    pub earliest_generation: u64,
    /// Behind the last.
    pub next_generation: u64,
    /// Operations in these batches.
    pub operations: u64,
    /// Bytes of these batches.
    pub bytes: u64,
}

impl Catalog {
    /// Reads the whole operation log and checks that each batch follows from the one before.
    pub fn verify_operations(&self) -> Result<OperationLogReport> {
        self.view()?; // open, and in the process that opened it
        verify(&self.shared.core.log, &self.shared.core.layout.log())
    }
}

impl Catalog {
    /// The batches that the operation log has.
    pub fn generations(&self) -> Result<Range<u64>> {
        self.view()?; // open, and in the process that opened it
        generations(&self.shared.core.log)
    }
}

impl CatalogReader {
    /// The batches that the operation log has, those after the last refresh included.
    pub fn generations(&self) -> Result<Range<u64>> {
        generations(self.log())
    }
}

fn generations(log: &dyn OperationLog) -> Result<Range<u64>> {
    let (earliest, end) = log.extent()?;
    Ok(earliest..end)
}

impl CatalogReader {
    /// Reads the whole operation log and checks that each batch follows from the one before.
    ///
    /// ```
    /// use aof2_core::{Catalog, CatalogConfig, CatalogReader};
    /// # let dir = tempfile::tempdir()?;
    /// Catalog::open(CatalogConfig::new(dir.path()))?.close()?;
    /// let report = CatalogReader::open(dir.path())?.verify_operations()?;
    /// assert_eq!(report.earliest_generation..report.next_generation, 0..1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify_operations(&self) -> Result<OperationLogReport> {
        verify(self.log(), &self.log().root())
    }
}

fn verify(log: &dyn OperationLog, path: &std::path::Path) -> Result<OperationLogReport> {
    let (earliest, end) = log.extent()?;
    let mut report = OperationLogReport {
        earliest_generation: earliest,
        next_generation: earliest,
        ..Default::default()
    };
    // The one before the first is gone; the very first follows from nothing.
    let mut previous_crc64 = (earliest == 0).then_some(0);
    let mut scan = log.scan_to(earliest, end)?;
    while let Some(record) = scan.next_record()? {
        let (batch, crc64) = batch_of(&record, path)?;
        let expected = report.next_generation;
        if batch.generation != expected {
            let reason = format!("batch {expected} is missing before it");
            return Err(divergence(path, batch.generation, reason));
        }
        if previous_crc64.is_some_and(|previous| previous != batch.previous_crc64) {
            let reason = "it does not follow from the batch before";
            return Err(divergence(path, batch.generation, reason));
        }
        previous_crc64 = Some(crc64);
        report.next_generation += 1;
        report.operations += batch.operations.len() as u64;
        report.bytes += record.payload.len() as u64;
    }
    Ok(report)
}
