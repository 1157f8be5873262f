//! Opening: tables that include exactly what the operation log has.
//!
//! | what is there | where the tables come from |
//! |---|---|
//! | tables of this log, not ahead of it | themselves, and the log behind them |
//! | none, damaged ones, those of another log, or tables ahead of the log | the newest checkpoint that can be read, and the log behind it |
//! | neither | the log, if it goes back to its first batch |
//!
//! Tables that cannot be used are removed. A crash while they are made again leaves tables
//! that include less than the log, or a file that cannot be read: both are handled above.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint;
use super::database::{Applied, Tables};
use super::layout::CatalogLayout;
use super::replay::{batch_of, divergence, replay};
use crate::error::{AofError, Result};
use crate::io::Storage;
use crate::manager::Aof;
use crate::read::{AofReader, Record, Scan, ScanOptions, Start};

/// Where the tables of an open catalog came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TablesFrom {
    /// They were there.
    Tables,
    /// A checkpoint, by its generation.
    Checkpoint(u64),
    /// The operation log alone.
    Log,
}

/// What opening a catalog found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Where the tables came from.
    pub from: TablesFrom,
    /// Why the tables that were there were not used, if there were any.
    pub discarded: Option<String>,
    /// Checkpoints that could not be used, and why.
    pub skipped_checkpoints: Vec<(u64, String)>,
    /// Batches of the operation log that were applied.
    pub batches_applied: u64,
}

/// A log of operations that can be read: the writer's own, or another process's.
pub(super) trait OperationLog {
    fn stream_id(&self) -> u64;
    /// First batch that is there, and the end of those that are durable.
    fn extent(&self) -> Result<(u64, u64)>;
    fn batch(&self, generation: u64) -> Result<Record>;
    fn scan(&self, from: u64) -> Result<Scan>;
}

fn options(from: u64) -> ScanOptions {
    ScanOptions { start: Start::Offset(from), ..Default::default() }
}

impl OperationLog for Aof {
    fn stream_id(&self) -> u64 {
        Self::stream_id(self).as_u64()
    }

    fn extent(&self) -> Result<(u64, u64)> {
        Ok((self.earliest_offset(), self.watermarks().durable))
    }

    fn batch(&self, generation: u64) -> Result<Record> {
        self.read_offset(generation)
    }

    fn scan(&self, from: u64) -> Result<Scan> {
        Self::scan(self, options(from))
    }
}

impl OperationLog for AofReader {
    fn stream_id(&self) -> u64 {
        Self::stream_id(self).as_u64()
    }

    fn extent(&self) -> Result<(u64, u64)> {
        let end = self.watermarks()?.durable;
        Ok((self.earliest_offset()?, end))
    }

    fn batch(&self, generation: u64) -> Result<Record> {
        self.read_offset(generation)
    }

    fn scan(&self, from: u64) -> Result<Scan> {
        Self::scan(self, options(from))
    }
}

/// Whether what tables or a checkpoint include is a prefix of this log, and the log has the
/// rest.
pub(super) fn check_history(log: &dyn OperationLog, applied: &Applied, path: &Path) -> Result<()> {
    let wrong = |reason: String| Err(divergence(path, applied.next_generation(), reason));
    if applied.stream_id != log.stream_id() {
        return wrong("it belongs to another operation log".into());
    }
    let (earliest, end) = log.extent()?;
    let Some(generation) = applied.generation else {
        return match earliest {
            0 => Ok(()),
            _ => wrong(format!("batches before {earliest} are gone")),
        };
    };
    if generation >= end {
        return wrong(format!("it includes batch {generation}, and the log ends before {end}"));
    }
    if generation + 1 < earliest {
        return wrong(format!("it ends with batch {generation}, and the log starts at {earliest}"));
    }
    if generation >= earliest {
        let (_, crc64) = batch_of(&log.batch(generation)?, path)?;
        if crc64 != applied.batch_crc64 {
            return wrong(format!("it includes another batch {generation} than the log"));
        }
    }
    Ok(())
}

/// Loads the newest checkpoint that fits the log into new tables.
pub(super) fn from_checkpoints(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    log: &dyn OperationLog,
    new_tables: &mut dyn FnMut() -> Result<Tables>,
    skipped: &mut Vec<(u64, String)>,
) -> Result<Option<(Tables, Applied, u64)>> {
    for generation in checkpoint::list(storage, layout)? {
        let path = layout.checkpoint(generation);
        let tables = new_tables()?;
        let loaded = checkpoint::load(storage, &path, &tables).and_then(|applied| {
            check_history(log, &applied, &path)?;
            Ok(applied)
        });
        match loaded {
            Ok(applied) => return Ok(Some((tables, applied, generation))),
            Err(error @ AofError::NewerVersion { .. }) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, generation, "a checkpoint of the catalog is passed over");
                skipped.push((generation, error.to_string()));
            }
        }
    }
    Ok(None)
}

/// The tables of a catalog whose operation log this process has opened.
pub(super) fn recover(
    storage: &Arc<dyn Storage>,
    layout: &CatalogLayout,
    log: &Aof,
    known_version: u32,
) -> Result<(Tables, Applied, Recovery)> {
    let path = layout.tables();
    let mut recovery = Recovery {
        from: TablesFrom::Tables,
        discarded: None,
        skipped_checkpoints: Vec::new(),
        batches_applied: 0,
    };
    let found = existing(&**storage, &path, log).unwrap_or_else(|error| {
        tracing::warn!(%error, "the tables of the catalog are made again");
        recovery.discarded = Some(error.to_string());
        None
    });
    let (tables, before) = match found {
        Some(found) => found,
        None => remake(storage, layout, log, &mut recovery)?,
    };
    let scan = OperationLog::scan(log, before.next_generation())?;
    let applied = replay(&tables, before, scan, &layout.log(), known_version)?;
    recovery.batches_applied = applied.next_generation() - before.next_generation();
    Ok((tables, applied, recovery))
}

/// The tables that are there, if they fit the log.
fn existing(
    storage: &dyn Storage,
    path: &Path,
    log: &dyn OperationLog,
) -> Result<Option<(Tables, Applied)>> {
    let Some(tables) = Tables::open(storage, path)? else {
        return Ok(None);
    };
    let applied = tables.view()?.applied();
    check_history(log, &applied, path)?;
    Ok(Some((tables, applied)))
}

fn remake(
    storage: &Arc<dyn Storage>,
    layout: &CatalogLayout,
    log: &Aof,
    recovery: &mut Recovery,
) -> Result<(Tables, Applied)> {
    let path = layout.tables();
    let stream_id = OperationLog::stream_id(log);
    let mut new_tables = || {
        checkpoint::remove_if_there(&**storage, &path)?;
        let file = storage.create_new(&path).map_err(AofError::io("create the tables", &path))?;
        Tables::create(file, &path, stream_id)
    };
    let skipped = &mut recovery.skipped_checkpoints;
    if let Some((tables, applied, generation)) =
        from_checkpoints(&**storage, layout, log, &mut new_tables, skipped)?
    {
        recovery.from = TablesFrom::Checkpoint(generation);
        return Ok((tables, applied));
    }
    recovery.from = TablesFrom::Log;
    let nothing = Applied::nothing(stream_id);
    check_history(log, &nothing, &layout.log())?;
    Ok((new_tables()?, nothing))
}
