//! The change feed: every batch once, in order, from any process; and the audit, which is the
//! same log read for who did what and when.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::cursors::CursorHandle;
use super::layout::CatalogLayout;
use super::open::Catalog;
use super::reader::CatalogReader;
use super::records::ComponentKind;
use super::recover::OperationLog;
use super::replay::{batch_of, divergence};
use super::view::View;
use crate::error::{AofError, Result};
use crate::format::CursorFile;
use crate::format::operation::{Operation, OperationBatch};
use crate::io::{Clock, Storage};
use crate::read::{Follow, Scan, ScanOptions, Start};

/// Changes of a catalog in order.
///
/// ```
/// use aof2_core::catalog::DbKind;
/// use aof2_core::{Catalog, CatalogConfig};
/// use std::time::Duration;
/// # let dir = tempfile::tempdir()?;
/// let catalog = Catalog::open(CatalogConfig::new(dir.path()))?;
/// catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
/// let mut feed = catalog.feed("search")?;
/// while let Some(batch) = feed.next_batch(Some(Duration::ZERO))? {
///     println!("{}: {} operations", batch.generation, batch.operations.len());
///     feed.acknowledge(batch.generation)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Feed {
    follow: Follow,
    log: PathBuf,
    cursor: Option<CursorHandle>,
    clock: Arc<dyn Clock>,
    stream_id: u64,
    next: u64,
    /// The last batch that the reader knows of.
    seen: u64,
}

/// Where a feed gets its batches from.
pub(super) struct FeedSource<'a> {
    pub(super) storage: &'a Arc<dyn Storage>,
    pub(super) clock: &'a Arc<dyn Clock>,
    pub(super) layout: &'a CatalogLayout,
    pub(super) log: &'a dyn OperationLog,
    /// The state now: it includes every batch that was durable before.
    pub(super) view: &'a dyn Fn() -> Result<View>,
    pub(super) follow: &'a dyn Fn(ScanOptions) -> Result<Follow>,
}

impl Feed {
    /// Goes on where the reader of this name acknowledged last; a new one begins at the
    /// first batch that there is.
    pub(super) fn named(source: &FeedSource<'_>, name: &str) -> Result<Self> {
        let cursor = CursorHandle::take(source.storage, source.layout, name)?;
        let found = cursor.read();
        // In this order: what was decided about the cursor before its file was read, or the
        // log was trimmed, is in the view.
        let (earliest, end) = source.log.extent()?;
        let view = (source.view)()?;
        let row = view
            .components()?
            .into_iter()
            .map(|(_, row)| row)
            .find(|row| row.name == name && row.kind != ComponentKind::Component);
        let reset = |next| AofError::FeedReset { cursor: name.to_owned(), next, earliest };
        let next = match found {
            Ok(Some(file)) if file.next_generation == CursorFile::FORGOTTEN => earliest,
            Ok(Some(file)) => {
                let next = file.next_generation;
                let expired_at = row.and_then(|row| row.expired_at);
                let is_kept = file.stream_id == source.log.stream_id()
                    && (earliest..=end).contains(&next)
                    && expired_at.is_none_or(|expired_at| file.seen_generation >= expired_at);
                if !is_kept {
                    return Err(reset(next));
                }
                next
            }
            // The catalog knows it: its file was lost, or it was expired.
            Ok(None) => match row {
                Some(row) if row.generation != CursorFile::FORGOTTEN => {
                    return Err(reset(row.generation));
                }
                _ => earliest,
            },
            Err(AofError::Corrupt(_)) => return Err(reset(0)),
            Err(error) => return Err(error),
        };
        Self::start(source, Some((cursor, view.generation())), next)
    }

    /// Begins at a generation, and moves the cursor of this name there.
    pub(super) fn named_from(source: &FeedSource<'_>, name: &str, next: u64) -> Result<Self> {
        let cursor = CursorHandle::take(source.storage, source.layout, name)?;
        let seen = (source.view)()?.generation();
        Self::start(source, Some((cursor, seen)), next)
    }

    /// With a cursor, and what its reader has seen.
    pub(super) fn start(
        source: &FeedSource<'_>,
        cursor: Option<(CursorHandle, u64)>,
        next: u64,
    ) -> Result<Self> {
        let (cursor, seen) = cursor.unzip();
        let name = cursor.as_ref().map_or(String::new(), |cursor| cursor.name.clone());
        let options = ScanOptions { start: Start::Offset(next), ..Default::default() };
        let (log, clock) = (source.layout.log(), Arc::clone(source.clock));
        let (stream_id, seen) = (source.log.stream_id(), seen.unwrap_or(0));
        if let Some(cursor) = &cursor {
            // From here on the log is kept for it.
            cursor.write(&place(&*clock, stream_id, next, seen))?;
        }
        let follow = (source.follow)(options).map_err(|error| reset(error, &name, next))?;
        Ok(Self { follow, log, cursor, clock, stream_id, next, seen })
    }

    /// The next batch; waits for one up to `timeout` (`None`: as long as it takes). `None`
    /// when the time is up, or the catalog was closed by this process.
    pub fn next_batch(&mut self, timeout: Option<Duration>) -> Result<Option<OperationBatch>> {
        let record = match self.follow.next_record(timeout) {
            Ok(Some(record)) => record,
            Ok(None) => return Ok(None),
            Err(error) => {
                let name = self.cursor.as_ref().map_or("", |cursor| &cursor.name);
                return Err(reset(error, name, self.next));
            }
        };
        let (batch, _) = batch_of(&record, &self.log)?;
        if batch.generation != self.next {
            let reason = format!("batch {} came in its place", batch.generation);
            return Err(divergence(&self.log, self.next, reason));
        }
        self.next = batch.generation + 1;
        self.seen = self.seen.max(batch.generation);
        Ok(Some(batch))
    }

    /// Notes, durably, that everything up to a generation was handled: it is not given to
    /// this reader again, and not kept for it.
    pub fn acknowledge(&self, generation: u64) -> Result<()> {
        let Some(cursor) = &self.cursor else {
            return Err(super::state::refused("a feed without a name keeps no place"));
        };
        if generation >= self.next {
            let next = self.next;
            return Err(super::state::refused(format!("batch {next} was not given out yet")));
        }
        cursor.write(&place(&*self.clock, self.stream_id, generation + 1, self.seen))
    }

    /// Whether nothing more will come: the catalog was closed by this process.
    pub fn is_finished(&self) -> bool {
        self.follow.is_finished()
    }

    /// The generation that comes next.
    pub fn next_generation(&self) -> u64 {
        self.next
    }

    /// Gives the place up: nothing is kept for this reader any more, and one of its name
    /// begins anew.
    pub fn forget(self) -> Result<()> {
        let forgotten = place(&*self.clock, self.stream_id, CursorFile::FORGOTTEN, self.seen);
        self.cursor.map_or(Ok(()), |cursor| cursor.write(&forgotten))
    }
}

fn place(clock: &dyn Clock, stream_id: u64, next_generation: u64, seen: u64) -> CursorFile {
    let updated_ms = clock.now_ns() / 1_000_000;
    CursorFile { stream_id, next_generation, seen_generation: seen, updated_ms }
}

/// What is not there any more is told as such.
fn reset(error: AofError, cursor: &str, next: u64) -> AofError {
    match error {
        AofError::Trimmed { earliest } => {
            AofError::FeedReset { cursor: cursor.to_owned(), next, earliest }
        }
        other => other,
    }
}

impl Catalog {
    fn with_source<T>(&self, work: impl FnOnce(&FeedSource<'_>) -> Result<T>) -> Result<T> {
        let core = &self.shared.core;
        work(&FeedSource {
            storage: &core.storage,
            clock: &core.clock,
            layout: &core.layout,
            log: &core.log,
            view: &|| self.view(),
            follow: &|options| core.log.follow(options),
        })
    }

    /// The change feed for a reader of this name, from where it acknowledged last. `FeedReset`
    /// if changes that it has not seen are gone.
    pub fn feed(&self, name: &str) -> Result<Feed> {
        self.with_source(|source| Feed::named(source, name))
    }

    /// The change feed for a reader of this name, from a generation on.
    pub fn feed_from(&self, name: &str, generation: u64) -> Result<Feed> {
        self.with_source(|source| Feed::named_from(source, name, generation))
    }

    /// Changes from a generation on, for a reader that keeps its place itself.
    pub fn changes_from(&self, generation: u64) -> Result<Feed> {
        self.with_source(|source| Feed::start(source, None, generation))
    }

    /// Who did what and when, oldest first, as far back as the operation log goes.
    ///
    /// ```
    /// use aof2_core::catalog::DbKind;
    /// use aof2_core::{Catalog, CatalogConfig};
    /// # let dir = tempfile::tempdir()?;
    /// let catalog = Catalog::open(CatalogConfig::new(dir.path()).actor("alice"))?;
    /// catalog.register_db("app", DbKind::Pages, 0)?.wait()?;
    /// for operation in catalog.audit(0)? {
    ///     let operation = operation?;
    ///     println!("{} {} {}", operation.timestamp_ms, operation.actor, operation.body.name());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn audit(&self, from_generation: u64) -> Result<Audit> {
        let core = &self.shared.core;
        let from = from_generation.max(core.log.earliest_offset());
        let start = Start::Offset(from);
        let scan = core.log.scan(ScanOptions { start, ..Default::default() })?;
        Ok(Audit::new(scan, &core.layout.log()))
    }
}

impl CatalogReader {
    /// The change feed for a reader of this name, from where it acknowledged last; see
    /// [`Catalog::feed`]. Writes the place of the reader, and nothing else.
    pub fn feed(&self, name: &str) -> Result<Feed> {
        self.with_feed_source(|source| Feed::named(source, name))
    }

    /// The change feed for a reader of this name, from a generation on.
    pub fn feed_from(&self, name: &str, generation: u64) -> Result<Feed> {
        self.with_feed_source(|source| Feed::named_from(source, name, generation))
    }

    /// Changes from a generation on, for a reader that keeps its place itself. Writes
    /// nothing.
    pub fn changes_from(&self, generation: u64) -> Result<Feed> {
        self.with_feed_source(|source| Feed::start(source, None, generation))
    }

    /// Who did what and when, oldest first; see [`Catalog::audit`].
    pub fn audit(&self, from_generation: u64) -> Result<Audit> {
        let from = from_generation.max(self.log().earliest_offset()?);
        let start = Start::Offset(from);
        let scan = self.log().scan(ScanOptions { start, ..Default::default() })?;
        Ok(Audit::new(scan, &self.log().root()))
    }
}

/// Operations in order, with who decided them and when.
#[derive(Debug)]
pub struct Audit {
    scan: Scan,
    log: PathBuf,
    batch: std::vec::IntoIter<Operation>,
}

impl Audit {
    fn new(scan: Scan, log: &Path) -> Self {
        Self { scan, log: log.to_owned(), batch: Vec::new().into_iter() }
    }
}

impl Iterator for Audit {
    type Item = Result<Operation>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(operation) = self.batch.next() {
                return Some(Ok(operation));
            }
            let record = match self.scan.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            match batch_of(&record, &self.log) {
                Ok((batch, _)) => self.batch = batch.operations.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
