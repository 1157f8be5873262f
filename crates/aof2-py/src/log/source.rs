//! What can be read: a log that this process writes, or one that is only read. The one
//! place that knows that the core has two handles for it.

use aof2_core::io::ForkStamp;
use aof2_core::{
    Aof, AofError, AofReader, Follow, Record, RecordId, Result, Scan, ScanOptions, SegmentFormat,
    SegmentInfo, StreamId, Visibility, Watermarks,
};

/// The two handles of the core behind their common reading methods.
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
    pub fn name(&self) -> &str {
        match self {
            Self::Writer(log) => log.name(),
            Self::Reader(log) => log.name(),
        }
    }

    pub fn stream_id(&self) -> StreamId {
        match self {
            Self::Writer(log) => log.stream_id(),
            Self::Reader(log) => log.stream_id(),
        }
    }

    pub fn format(&self) -> SegmentFormat {
        match self {
            Self::Writer(log) => log.format(),
            Self::Reader(log) => log.format(),
        }
    }

    /// Whether the log was closed. A reader ends with its last handle.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Writer(log) => log.is_closed(),
            Self::Reader(_) => false,
        }
    }

    pub fn watermarks(&self) -> Result<Watermarks> {
        match self {
            Self::Writer(log) => Ok(log.watermarks()),
            Self::Reader(log) => log.watermarks(),
        }
    }

    pub fn earliest_offset(&self) -> Result<u64> {
        match self {
            Self::Writer(log) => Ok(log.earliest_offset()),
            Self::Reader(log) => log.earliest_offset(),
        }
    }

    pub fn segments(&self) -> Result<Vec<SegmentInfo>> {
        match self {
            Self::Writer(log) => Ok(log.segments()),
            Self::Reader(log) => log.segments(),
        }
    }

    /// The record; without a visibility, if it is one that this handle sees by itself.
    pub fn read(&self, at: At, visibility: Option<Visibility>) -> Result<Record> {
        let visibility = visibility.unwrap_or(self.visibility_of_read());
        match (self, at) {
            (Self::Writer(log), At::Id(id)) => log.read_with(id, visibility),
            (Self::Reader(log), At::Id(id)) => log.read_with(id, visibility),
            (Self::Writer(log), At::Offset(offset)) => log.read_offset_with(offset, visibility),
            (Self::Reader(log), At::Offset(offset)) => log.read_offset_with(offset, visibility),
        }
    }

    /// [`read`](Self::read), if it costs no wait.
    pub fn try_read(&self, at: At, visibility: Option<Visibility>) -> Result<Record> {
        let visibility = visibility.unwrap_or(self.visibility_of_read());
        match (self, at) {
            (Self::Writer(log), At::Id(id)) => log.try_read_with(id, visibility),
            (Self::Reader(log), At::Id(id)) => log.try_read_with(id, visibility),
            (Self::Writer(log), At::Offset(offset)) => log.try_read_offset_with(offset, visibility),
            (Self::Reader(log), At::Offset(offset)) => log.try_read_offset_with(offset, visibility),
        }
    }

    /// What the core's `read` of this handle sees.
    fn visibility_of_read(&self) -> Visibility {
        match self {
            Self::Writer(_) => Visibility::Appended,
            Self::Reader(_) => Visibility::Durable,
        }
    }

    pub fn offset_at(&self, timestamp_ms: u64, visibility: Visibility) -> Result<u64> {
        match self {
            Self::Writer(log) => log.offset_at(timestamp_ms, visibility),
            Self::Reader(log) => log.offset_at(timestamp_ms, visibility),
        }
    }

    pub fn scan(&self, options: ScanOptions) -> Result<Scan> {
        match self {
            Self::Writer(log) => log.scan(options),
            Self::Reader(log) => log.scan(options),
        }
    }

    pub fn follow(&self, options: ScanOptions) -> Result<Follow> {
        match self {
            Self::Writer(log) => log.follow(options),
            Self::Reader(log) => log.follow(options),
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
