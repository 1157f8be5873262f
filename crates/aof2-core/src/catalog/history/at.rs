//! The state after an earlier batch: a checkpoint before it, and the operation log from there
//! to the batch. Nothing is locked or written, so this works beside a writer.
//!
//! A state can be made while the operation log goes back to its first batch, or to a
//! checkpoint at or before the batch. Whatever is older is gone.

use std::path::Path;
use std::sync::Arc;

use crate::catalog::checkpoint;
use crate::catalog::database::{Applied, Tables};
use crate::catalog::layout::CatalogLayout;
use crate::catalog::migrate::TABLES_VERSION;
use crate::catalog::open::Catalog;
use crate::catalog::reader::{CatalogReader, new_tables};
use crate::catalog::recover::{OperationLog, check_history};
use crate::catalog::replay::{divergence, replay};
use crate::catalog::view::View;
use crate::error::{AofError, Result};
use crate::io::{OsStorage, Storage};
use crate::read::AofReader;

/// The state of the catalog of a directory after a batch. `PastEnd` if there is no such batch
/// yet, `Trimmed` if what it needs is gone; `earliest` is then the first generation whose
/// state can be had.
///
/// ```
/// use aof2_core::catalog::{DbKind, view_at};
/// use aof2_core::{Catalog, CatalogConfig};
/// # let dir = tempfile::tempdir()?;
/// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
/// let before = catalog.view()?.generation();
/// catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
/// assert!(view_at(dir.path(), before)?.database_named("app")?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn view_at(root: impl AsRef<Path>, generation: u64) -> Result<View> {
    let storage: Arc<dyn Storage> = Arc::new(OsStorage);
    let layout = CatalogLayout::new(root.as_ref());
    let log = AofReader::open_on(Arc::clone(&storage), layout.log())?;
    state_at(&*storage, &layout, &log, generation)
}

impl Catalog {
    /// The state after an earlier batch; see [`view_at`].
    pub fn view_at(&self, generation: u64) -> Result<View> {
        self.view()?; // open, and in the process that opened it
        let core = &self.shared.core;
        state_at(&*core.storage, &core.layout, &core.log, generation)
    }
}

impl CatalogReader {
    /// The state after an earlier batch; see [`view_at`].
    pub fn view_at(&self, generation: u64) -> Result<View> {
        self.with_feed_source(|source| {
            state_at(&**source.storage, source.layout, source.log, generation)
        })
    }
}

fn state_at(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    log: &dyn OperationLog,
    generation: u64,
) -> Result<View> {
    let (_, end) = log.extent()?;
    if generation >= end {
        return Err(AofError::PastEnd { offset: generation, end, is_appended: false });
    }
    let mut skipped = None;
    for checkpoint in checkpoint::list(storage, layout)? {
        if checkpoint > generation {
            continue;
        }
        let path = layout.checkpoint(checkpoint);
        let tables = new_tables(storage, layout, log.stream_id())?;
        let made = checkpoint::load(storage, &path, &tables).and_then(|before| {
            check_history(log, &before, &path)?;
            go_on(&tables, before, log, layout, generation)
        });
        match made {
            Ok(()) => return view_of(tables),
            Err(error @ AofError::NewerVersion { .. }) => return Err(error),
            Err(error) => skipped = Some(error),
        }
    }
    if log.extent()?.0 == 0 {
        let tables = new_tables(storage, layout, log.stream_id())?;
        go_on(&tables, Applied::nothing(log.stream_id()), log, layout, generation)?;
        return view_of(tables);
    }
    match skipped {
        // It is not gone: it cannot be read.
        Some(error @ (AofError::Io { .. } | AofError::Corrupt(_))) => Err(error),
        _ => Err(AofError::Trimmed { earliest: earliest_state(storage, layout, log)? }),
    }
}

/// Applies the batches from what the tables include to this one.
fn go_on(
    tables: &Tables,
    before: Applied,
    log: &dyn OperationLog,
    layout: &CatalogLayout,
    generation: u64,
) -> Result<()> {
    if before.generation == Some(generation) {
        return Ok(());
    }
    let scan = log.scan_to(before.next_generation(), generation + 1)?;
    let applied = replay(tables, before, scan, &layout.log(), TABLES_VERSION)?;
    match applied.generation == Some(generation) {
        true => Ok(()),
        false => Err(divergence(&layout.log(), generation, "the operation log ends before it")),
    }
}

/// The first generation whose state can be had.
fn earliest_state(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    log: &dyn OperationLog,
) -> Result<u64> {
    let (earliest, end) = log.extent()?;
    let checkpoints = checkpoint::list(storage, layout)?;
    let fitting = checkpoints.into_iter().filter(|at| (earliest..end).contains(&(at + 1)));
    Ok(fitting.min().unwrap_or(end.saturating_sub(1)))
}

fn view_of(tables: Tables) -> Result<View> {
    let tables = Arc::new(tables);
    Ok(tables.view()?.keeping(tables))
}
