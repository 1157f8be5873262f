//! What can be read: a log that this process writes, or one that is only read. The one
//! place that knows that the core has two handles for it.

use std::ops::Deref;

use aof2_core::io::ForkStamp;
use aof2_core::{Aof, AofError, AofReader, ReadableLog, Record, RecordId, Result, Visibility};

/// The two handles of the core; what they have in common is a method of this.
#[derive(Clone, Debug)]
pub enum Source {
    Writer(Aof),
    Reader(AofReader),
}

/// Which record to read.
#[derive(Clone, Copy)]
pub enum At {
    Id(RecordId),
    Offset(u64),
}

impl Source {
    /// Whether the log was closed. A reader ends with its last handle.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Writer(log) => log.is_closed(),
            Self::Reader(_) => false,
        }
    }

    /// The record; without a visibility, if it is one that this handle sees by itself.
    pub fn read(&self, at: At, visibility: Option<Visibility>) -> Result<Record> {
        let visibility = visibility.unwrap_or(self.read_visibility());
        match at {
            At::Id(id) => self.read_with(id, visibility),
            At::Offset(offset) => self.read_offset_with(offset, visibility),
        }
    }

    /// [`read`](Self::read), if it costs no wait.
    pub fn try_read(&self, at: At, visibility: Option<Visibility>) -> Result<Record> {
        let visibility = visibility.unwrap_or(self.read_visibility());
        match at {
            At::Id(id) => self.try_read_with(id, visibility),
            At::Offset(offset) => self.try_read_offset_with(offset, visibility),
        }
    }
}

impl Deref for Source {
    type Target = dyn ReadableLog;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Writer(log) => log,
            Self::Reader(log) => log,
        }
    }
}

/// Refuses what was opened before a `fork()`.
pub fn check_not_forked(stamp: ForkStamp) -> Result<()> {
    match stamp.is_forked() {
        true => Err(AofError::Forked),
        false => Ok(()),
    }
}
