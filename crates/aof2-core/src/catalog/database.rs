//! The tables in redb: what the operation log adds up to.
//!
//! Every commit stores which batch it includes. Commits are not synced, since the operation
//! log is what makes a batch durable; a crash takes the tables back to the last commit that
//! was ([`Tables::persist`], with every checkpoint), and the log's tail is applied again.
//! Whatever is wrong with the file costs that it is made again, and nothing else.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use serde::{Deserialize, Serialize};

use super::backend::TableFile;
use super::records::Row;
use super::state::{Changes, ReadRows};
use super::tables::{Counter, Table};
use super::view::View;
use crate::error::{AofError, Damage, Result};
use crate::io::{File, ForkStamp, OpenMode, Storage};

const APPLIED: TableDefinition<'static, &'static [u8], &'static [u8]> =
    TableDefinition::new("applied");
const APPLIED_KEY: &[u8] = b"applied";

/// Memory that redb may use for pages.
const CACHE_BYTES: usize = 64 << 20;
/// Files up to this length are checked as a whole when they are opened.
const CHECKED_LEN_MAX: u64 = 64 << 20;

/// Which batches the tables include.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Applied {
    /// The operation log.
    pub(super) stream_id: u64,
    /// The last batch, once there is one.
    pub(super) generation: Option<u64>,
    /// Its checksum.
    pub(super) batch_crc64: u64,
}

impl Row for Applied {}

impl Applied {
    pub(super) const fn nothing(stream_id: u64) -> Self {
        Self { stream_id, generation: None, batch_crc64: 0 }
    }

    /// The batch that comes next.
    pub(super) fn next_generation(&self) -> u64 {
        self.generation.map_or(0, |generation| generation + 1)
    }
}

/// The tables, open.
#[derive(Debug)]
pub(super) struct Tables {
    /// There until it is dropped.
    db: Option<Database>,
    path: PathBuf,
    stamp: ForkStamp,
}

impl Drop for Tables {
    fn drop(&mut self) {
        let db = self.db.take();
        if self.stamp.is_forked() {
            // Closing writes, and may wait for locks that the parent's threads held.
            std::mem::forget(db);
            return;
        }
        // What is damaged may also fail to be closed.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(db)));
    }
}

impl Tables {
    /// Tables that are gone with this handle.
    pub(super) fn in_memory(stream_id: u64) -> Result<Self> {
        let path = PathBuf::from("tables in memory");
        let db = build(|builder| builder.create_with_backend(InMemoryBackend::new()), &path)?;
        Self { db: Some(db), path, stamp: ForkStamp::now() }.prepared(stream_id)
    }

    /// Whether every table is there and the rows that every writer needs first can be read.
    pub(super) fn probe(&self) -> Result<()> {
        let view = self.view()?;
        for table in Table::ALL {
            view.row_count(table)?;
        }
        view.tables_version()?;
        view.next(Counter::Job).map(drop)
    }

    /// New tables in an empty file.
    pub(super) fn create(file: Arc<dyn File>, path: &Path, stream_id: u64) -> Result<Self> {
        Self::over(file, path)?.prepared(stream_id)
    }

    /// The tables in a file, if they can be used; `None` if there are none.
    pub(super) fn open(storage: &dyn Storage, path: &Path) -> Result<Option<Self>> {
        let file = match storage.open(path, OpenMode::ReadWrite) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(AofError::io("open the tables", path)(e)),
        };
        let len = file.len().map_err(AofError::io("measure the tables", path))?;
        if len == 0 {
            return Ok(None);
        }
        let mut tables = Self::over(file, path)?;
        if len <= CHECKED_LEN_MAX {
            let checked = guarded(path, || {
                let db = tables.db.as_mut().ok_or(AofError::Closed)?;
                db.check_integrity().map_err(|e| table_error("check the tables", path, e))
            })?;
            if !checked {
                return Err(damaged(path, "the tables are damaged"));
            }
        }
        Ok(Some(tables))
    }

    fn over(file: Arc<dyn File>, path: &Path) -> Result<Self> {
        let backend = TableFile::new(file).map_err(AofError::io("measure the tables", path))?;
        let db = build(|builder| builder.create_with_backend(backend), path)?;
        Ok(Self { db: Some(db), path: path.to_owned(), stamp: ForkStamp::now() })
    }

    /// With all tables in it, and a note that nothing was applied.
    fn prepared(self, stream_id: u64) -> Result<Self> {
        self.commit(Durability::None, |write| {
            for table in Table::ALL {
                write.open_table(table.definition()).map_err(|e| self.error(e))?;
            }
            self.put_applied(write, &Applied::nothing(stream_id))
        })?;
        Ok(self)
    }

    fn db(&self) -> Result<&Database> {
        self.db.as_ref().ok_or(AofError::Closed)
    }

    /// What was committed last.
    pub(super) fn view(&self) -> Result<View> {
        guarded(&self.path, || {
            let fail = |e: redb::Error| table_error("read the tables", &self.path, e);
            let read = self.db()?.begin_read().map_err(|e| fail(e.into()))?;
            let table = read.open_table(APPLIED).map_err(|e| fail(e.into()))?;
            let applied = table.get(APPLIED_KEY).map_err(|e| fail(e.into()))?;
            let applied = applied.and_then(|bytes| Applied::decode(bytes.value()).ok());
            let applied = applied
                .ok_or_else(|| damaged(&self.path, "the tables do not say what they include"))?;
            Ok(View::new(read, applied, self.path.clone()))
        })
    }

    /// Commits what a batch changes, without a sync.
    pub(super) fn write(&self, changes: &Changes, applied: &Applied) -> Result<()> {
        self.commit(Durability::None, |write| {
            for table in Table::ALL {
                let changed = changes.range((table, Vec::new())..);
                let mut changed = changed.take_while(|((t, _), _)| *t == table).peekable();
                if changed.peek().is_none() {
                    continue;
                }
                let mut rows = write.open_table(table.definition()).map_err(|e| self.error(e))?;
                for ((_, key), value) in changed {
                    match value {
                        Some(value) => rows.insert(&**key, &**value).map(drop),
                        None => rows.remove(&**key).map(drop),
                    }
                    .map_err(|e| self.error(e))?;
                }
            }
            self.put_applied(write, applied)
        })
    }

    /// Adds rows that are not there yet: those of a checkpoint.
    pub(super) fn load(&self, rows: &[(Table, Vec<u8>, Vec<u8>)]) -> Result<()> {
        self.commit(Durability::None, |write| {
            for of_table in rows.chunk_by(|a, b| a.0 == b.0) {
                let Some((table, ..)) = of_table.first() else { continue };
                let mut rows = write.open_table(table.definition()).map_err(|e| self.error(e))?;
                for (_, key, value) in of_table {
                    rows.insert(&**key, &**value).map_err(|e| self.error(e))?;
                }
            }
            Ok(())
        })
    }

    /// Notes which batches are included, with what was loaded.
    pub(super) fn note(&self, applied: &Applied) -> Result<()> {
        self.commit(Durability::None, |write| self.put_applied(write, applied))
    }

    /// Makes all commits so far survive a crash, so that opening need not apply them again.
    pub(super) fn persist(&self) -> Result<()> {
        self.commit(Durability::Immediate, |_| Ok(()))
    }

    fn put_applied(&self, write: &WriteTransaction, applied: &Applied) -> Result<()> {
        let mut table = write.open_table(APPLIED).map_err(|e| self.error(e))?;
        let bytes = applied.encode();
        table.insert(APPLIED_KEY, &*bytes).map_err(|e| self.error(e))?;
        Ok(())
    }

    fn commit(
        &self,
        durability: Durability,
        change: impl FnOnce(&WriteTransaction) -> Result<()>,
    ) -> Result<()> {
        guarded(&self.path, || {
            let mut write = self.db()?.begin_write().map_err(|e| self.error(e))?;
            write.set_durability(durability).map_err(|e| self.error(e))?;
            // A kill then costs nothing when the file is opened again.
            write.set_quick_repair(matches!(durability, Durability::Immediate));
            change(&write)?;
            write.commit().map_err(|e| self.error(e))
        })
    }

    fn error(&self, error: impl Into<redb::Error>) -> AofError {
        table_error("write the tables", &self.path, error)
    }
}

fn build(
    open: impl FnOnce(&Builder) -> Result<Database, redb::DatabaseError>,
    path: &Path,
) -> Result<Database> {
    guarded(path, || {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        open(&builder).map_err(|e| table_error("open the tables", path, e))
    })
}

/// What redb says, as an error of the catalog: `Io` if the disk said it, `Corrupt` if the file
/// is not what redb wrote.
pub(super) fn table_error(
    op: &'static str,
    path: &Path,
    error: impl Into<redb::Error>,
) -> AofError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match error.into() {
        redb::Error::Io(e) if matches!(e.kind(), InvalidData | InvalidInput | UnexpectedEof) => {
            damaged(path, e.to_string())
        }
        redb::Error::Io(e) => AofError::io(op, path)(e),
        redb::Error::DatabaseClosed => AofError::Closed,
        other @ (redb::Error::PreviousIo
        | redb::Error::LockPoisoned(_)
        | redb::Error::ValueTooLarge(_)) => {
            AofError::io(op, path)(std::io::Error::other(other.to_string()))
        }
        other => damaged(path, other.to_string()),
    }
}

/// Tables that are to be made again.
fn damaged(path: &Path, reason: impl Into<String>) -> AofError {
    AofError::Corrupt(Box::new(Damage {
        path: path.to_owned(),
        offset: 0,
        records: 0..0,
        reason: reason.into(),
    }))
}

/// A file that is damaged where redb does not expect it must not bring the host down.
pub(super) fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(damaged(path, "the tables are damaged in a way redb gave up on")))
}
