//! Opening: tables that include exactly what the operation log has.
//!
//! | what is there | where the tables come from |
//! |---|---|
//! | tables of this log, not ahead of it | themselves, and the log behind them |
//! | none, damaged ones, those of another log, or tables ahead of the log | the newest checkpoint that can be read, and the log behind it |
//! | neither | the log, if it goes back to its first batch |
//!
//! Each of these is tried until one brings the tables up to the end of the log; only then do
//! new tables take the place of what was there. A crash while they are made again leaves the
//! old ones, and a file that the next writer removes.

use std::path::Path;
use std::sync::Arc;

use super::checkpoint;
use super::database::{Applied, Tables};
use super::layout::CatalogLayout;
use super::replay::{batch_of, divergence, replay};
use crate::error::{AofError, Result};
use crate::io::Storage;
use crate::manager::Aof;
use crate::read::{AofReader, End, Record, Scan, ScanOptions, Start};

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
    /// The batches from one on and before another.
    fn scan_to(&self, from: u64, end: u64) -> Result<Scan>;
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

    fn scan_to(&self, from: u64, end: u64) -> Result<Scan> {
        Self::scan(self, ScanOptions { end: End::Offset(end), ..options(from) })
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

    fn scan_to(&self, from: u64, end: u64) -> Result<Scan> {
        Self::scan(self, ScanOptions { end: End::Offset(end), ..options(from) })
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

/// Brings tables up to the end of the log. What they include now.
pub(super) type CatchUp<'c> = &'c mut dyn FnMut(&Tables, Applied) -> Result<Applied>;

/// Tables that were made of something, and what they include.
pub(super) struct Made {
    pub(super) tables: Tables,
    /// Before the log was applied.
    before: Applied,
    applied: Applied,
    generation: u64,
}

/// Loads the newest checkpoint that fits the log, and the log behind it, into new tables.
pub(super) fn from_checkpoints(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    log: &dyn OperationLog,
    new_tables: &mut dyn FnMut() -> Result<Tables>,
    catch_up: CatchUp<'_>,
    skipped: &mut Vec<(u64, String)>,
) -> Result<Option<Made>> {
    for generation in checkpoint::list(storage, layout)? {
        let path = layout.checkpoint(generation);
        let tables = new_tables()?;
        let made = checkpoint::load(storage, &path, &tables).and_then(|before| {
            check_history(log, &before, &path)?;
            Ok((before, catch_up(&tables, before)?))
        });
        match made {
            Ok((before, applied)) => return Ok(Some(Made { tables, before, applied, generation })),
            Err(error @ (AofError::NewerVersion { .. } | AofError::Trimmed { .. })) => {
                return Err(error);
            }
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
    let mut recovery = Recovery {
        from: TablesFrom::Tables,
        discarded: None,
        skipped_checkpoints: Vec::new(),
        batches_applied: 0,
    };
    let mut catch_up = |tables: &Tables, before: Applied| {
        let scan = OperationLog::scan(log, before.next_generation())?;
        let applied = replay(tables, before, scan, &layout.log(), known_version)?;
        tables.probe()?;
        Ok(applied)
    };
    let found = match existing(&**storage, &layout.tables(), log, &mut catch_up) {
        Ok(found) => found,
        Err(error) if !is_damage(&error) => return Err(error),
        Err(error) => {
            tracing::warn!(%error, "the tables of the catalog are made again");
            recovery.discarded = Some(error.to_string());
            None
        }
    };
    let made = match found {
        Some(made) => made,
        None => remake(storage, layout, log, &mut catch_up, &mut recovery)?,
    };
    recovery.batches_applied = made.applied.next_generation() - made.before.next_generation();
    Ok((made.tables, made.applied, recovery))
}

/// Whether other tables would help: not if the disk does not answer, or this program is too
/// old.
fn is_damage(error: &AofError) -> bool {
    matches!(error, AofError::Corrupt(_) | AofError::Refused { .. } | AofError::Trimmed { .. })
}

/// The tables that are there, if they fit the log and take what is behind them.
fn existing(
    storage: &dyn Storage,
    path: &Path,
    log: &dyn OperationLog,
    catch_up: CatchUp<'_>,
) -> Result<Option<Made>> {
    let Some(tables) = Tables::open(storage, path)? else {
        return Ok(None);
    };
    let before = tables.view()?.applied();
    check_history(log, &before, path)?;
    let applied = catch_up(&tables, before)?;
    Ok(Some(Made { tables, before, applied, generation: 0 }))
}

fn remake(
    storage: &Arc<dyn Storage>,
    layout: &CatalogLayout,
    log: &Aof,
    catch_up: CatchUp<'_>,
    recovery: &mut Recovery,
) -> Result<Made> {
    let path = layout.unfinished_tables();
    let stream_id = OperationLog::stream_id(log);
    let mut new_tables = || {
        checkpoint::remove_if_there(&**storage, &path)?;
        let file = storage.create_new(&path).map_err(AofError::io("create the tables", &path))?;
        Tables::create(file, &layout.tables(), stream_id)
    };
    let skipped = &mut recovery.skipped_checkpoints;
    let made = from_checkpoints(&**storage, layout, log, &mut new_tables, catch_up, skipped)?;
    let made = match made {
        Some(made) => {
            recovery.from = TablesFrom::Checkpoint(made.generation);
            made
        }
        None => {
            recovery.from = TablesFrom::Log;
            let before = Applied::nothing(stream_id);
            check_history(log, &before, &layout.log()).map_err(|e| with_skipped(e, skipped))?;
            let tables = new_tables()?;
            let applied = catch_up(&tables, before)?;
            Made { tables, before, applied, generation: 0 }
        }
    };
    // Good: from here on they are the tables.
    made.tables.persist()?;
    let directory = layout.directory();
    storage.rename(&path, &layout.tables()).map_err(AofError::io("name the tables", &path))?;
    storage.sync_dir(&directory).map_err(AofError::io("sync the tables", &directory))?;
    Ok(made)
}

/// Why there is nothing to start from, with what was tried.
fn with_skipped(error: AofError, skipped: &[(u64, String)]) -> AofError {
    match error {
        AofError::Corrupt(mut damage) => {
            for (generation, why) in skipped {
                damage.reason.push_str(&format!("; checkpoint {generation}: {why}"));
            }
            AofError::Corrupt(damage)
        }
        other => other,
    }
}
