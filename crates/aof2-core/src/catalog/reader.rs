//! Reading a catalog that another process may be writing: no lock, no writes.
//!
//! A reader makes tables of its own from the newest checkpoint and the operation log behind
//! it, in memory or, where that would be too much, in a file that nobody else sees. It works
//! beside a writer, after a writer was killed, and on a read-only disk. A checkpoint that is
//! removed while it is read, or a log that is trimmed behind it, means that there is a newer
//! checkpoint: the reader starts again with that one.

use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::checkpoint;
use super::database::{Applied, Tables};
use super::feed::FeedSource;
use super::layout::CatalogLayout;
use super::migrate::TABLES_VERSION;
use super::recover::{OperationLog, check_history, from_checkpoints};
use super::replay::replay;
use super::view::View;
use crate::error::{AofError, Result};
use crate::io::{Clock, OpenMode, OsStorage, Storage, SystemClock};
use crate::read::AofReader;

/// Checkpoints longer than this are loaded into a file.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// How often a reader starts again because the writer was faster.
const ATTEMPTS_MAX: usize = 16;

/// A catalog open for reading, in any process.
///
/// ```
/// use aof2_core::catalog::DbKind;
/// use aof2_core::{Catalog, CatalogConfig, CatalogReader};
///
/// # let dir = tempfile::tempdir()?;
/// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
/// let reader = CatalogReader::open(dir.path())?; // here or in another process
/// catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
/// reader.refresh()?;
/// assert!(reader.view()?.database_named("app")?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CatalogReader {
    storage: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    layout: CatalogLayout,
    log: AofReader,
    tables: RwLock<Arc<Tables>>,
    /// One refresh at a time.
    refreshing: Mutex<()>,
}

impl CatalogReader {
    /// Opens the catalog of a directory.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(root, Arc::new(OsStorage), Arc::new(SystemClock))
    }

    /// Opens a catalog on other storage than the machine's files.
    pub fn open_on(
        root: impl AsRef<Path>,
        storage: Arc<dyn Storage>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let layout = CatalogLayout::new(root.as_ref());
        let log = AofReader::open_on(Arc::clone(&storage), layout.log())?;
        let tables = load(&storage, &layout, &log)?;
        if tables.view()?.applied().generation.is_none() {
            let reason = "the catalog is being created".into();
            return Err(AofError::NotALog { path: layout.directory(), reason });
        }
        let tables = RwLock::new(Arc::new(tables));
        Ok(Self { storage, clock, layout, log, tables, refreshing: Mutex::new(()) })
    }

    /// The state as of the last refresh.
    pub fn view(&self) -> Result<View> {
        let tables = Arc::clone(&self.tables.read());
        // A refresh may take other tables; this view goes on with its own.
        Ok(tables.view()?.keeping(tables))
    }

    /// Applies what was decided since, and returns the generation of the state.
    pub fn refresh(&self) -> Result<u64> {
        let _one_at_a_time = self.refreshing.lock();
        let tables = Arc::clone(&self.tables.read());
        match catch_up(&tables, &self.log) {
            Ok(applied) => Ok(applied.generation.unwrap_or(0)),
            Err(error) if is_overtaken(&error) => {
                let tables = load(&self.storage, &self.layout, &self.log)?;
                let generation = tables.view()?.generation();
                *self.tables.write() = Arc::new(tables);
                Ok(generation)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn log(&self) -> &AofReader {
        &self.log
    }

    pub(super) fn with_feed_source<T>(
        &self,
        work: impl FnOnce(&FeedSource<'_>) -> Result<T>,
    ) -> Result<T> {
        work(&FeedSource {
            storage: &self.storage,
            clock: &self.clock,
            layout: &self.layout,
            log: &self.log,
            view: &|| {
                self.refresh()?;
                self.view()
            },
            follow: &|options| self.log.follow(options),
        })
    }
}

/// Whether the writer trimmed what was to be applied.
fn is_overtaken(error: &AofError) -> bool {
    matches!(error, AofError::Trimmed { .. })
}

fn catch_up(tables: &Tables, log: &AofReader) -> Result<Applied> {
    let applied = tables.view()?.applied();
    let (earliest, end) = log.extent()?;
    if applied.next_generation() < earliest {
        return Err(AofError::Trimmed { earliest });
    }
    if applied.next_generation() >= end {
        return Ok(applied);
    }
    let scan = OperationLog::scan(log, applied.next_generation())?;
    replay(tables, applied, scan, &log.root(), TABLES_VERSION)
}

/// Tables of the newest checkpoint and the log behind it.
fn load(storage: &Arc<dyn Storage>, layout: &CatalogLayout, log: &AofReader) -> Result<Tables> {
    let mut outcome = Err(AofError::Timeout { what: "a checkpoint that stays while it is read" });
    for _ in 0..ATTEMPTS_MAX {
        outcome = try_load(storage, layout, log);
        match &outcome {
            Err(error) if is_overtaken(error) => {}
            // No checkpoint fits a log that was trimmed meanwhile: look again.
            Err(AofError::Corrupt(_)) if log.earliest_offset()? > 0 => {}
            _ => break,
        }
    }
    outcome
}

fn try_load(storage: &Arc<dyn Storage>, layout: &CatalogLayout, log: &AofReader) -> Result<Tables> {
    let stream_id = OperationLog::stream_id(log);
    let mut new_tables = || new_tables(&**storage, layout, stream_id);
    let mut skipped = Vec::new();
    let mut catch_up = |tables: &Tables, _: Applied| catch_up(tables, log);
    let loaded =
        from_checkpoints(&**storage, layout, log, &mut new_tables, &mut catch_up, &mut skipped)?;
    if let Some(made) = loaded {
        return Ok(made.tables);
    }
    let nothing = Applied::nothing(stream_id);
    check_history(log, &nothing, &layout.log())?;
    let tables = new_tables()?;
    catch_up(&tables, nothing)?;
    Ok(tables)
}

/// Tables in memory, or in a file without a name if the newest checkpoint is long.
pub(super) fn new_tables(
    storage: &dyn Storage,
    layout: &CatalogLayout,
    stream_id: u64,
) -> Result<Tables> {
    let newest = checkpoint::list(storage, layout)?.first().copied();
    let len = newest.and_then(|generation| {
        let file = storage.open(&layout.checkpoint(generation), OpenMode::Read).ok()?;
        file.len().ok()
    });
    if len.is_none_or(|len| len <= MEMORY_BYTES_MAX) {
        return Tables::in_memory(stream_id);
    }
    let scratch = OsStorage;
    let number = scratch.random_u64().map_err(AofError::io("draw a number", &layout.root))?;
    let path = std::env::temp_dir().join(format!("aof2-catalog-{number:016x}.redb"));
    let file = scratch.create_new(&path).map_err(AofError::io("create tables", &path))?;
    scratch.remove(&path).map_err(AofError::io("hide tables", &path))?;
    Tables::create(file, &path, stream_id)
}
