//! The file behind the tables, for redb, on the storage seam.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::io::{File, ForkStamp};

/// A file that redb keeps its pages in.
///
/// Files of a [`Storage`](crate::io::Storage) do not shrink. What redb gives up is punched
/// out instead, and redb takes the longer file for its own when it opens it again.
#[derive(Debug)]
pub(super) struct TableFile {
    file: Arc<dyn File>,
    len: Mutex<u64>,
    is_closed: AtomicBool,
    stamp: ForkStamp,
}

impl TableFile {
    pub(super) fn new(file: Arc<dyn File>) -> io::Result<Self> {
        let len = Mutex::new(file.len()?);
        Ok(Self { file, len, is_closed: AtomicBool::new(false), stamp: ForkStamp::now() })
    }

    /// Once it is closed, another process may have the file. In a forked child, the parent
    /// has it.
    fn check(&self) -> io::Result<()> {
        match self.is_closed.load(Ordering::Acquire) || self.stamp.is_forked() {
            true => Err(io::Error::other("the catalog is closed, or was opened before fork()")),
            false => Ok(()),
        }
    }
}

impl StorageBackend for TableFile {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(*self.len.lock())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.check()?;
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.check()?;
        let mut known = self.len.lock();
        if len > *known {
            self.file.allocate(len)?;
        } else if len < *known {
            self.file.punch_hole(len, *known - len)?;
        }
        *known = len;
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.check()?;
        self.file.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.check()?;
        self.file.write_all_at(data, offset)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.is_closed.store(true, Ordering::Release);
        Ok(())
    }
}
