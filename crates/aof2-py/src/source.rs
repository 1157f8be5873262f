//! What can be read: a log that this process writes, or one that is only read.

use aof2_core::io::ForkStamp;
use aof2_core::{
    Aof, AofError, AofReader, Follow, Record, RecordId, Result, Scan, ScanOptions, SegmentInfo,
    Visibility, Watermarks,
};

/// The two handles of the core behind their common reading methods.
#[derive(Clone)]
pub enum Source {
    Writer(Aof),
    Reader(AofReader),
}

impl Source {
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

    pub fn read(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        match self {
            Self::Writer(log) => log.read_with(id, visibility),
            Self::Reader(log) => log.read_with(id, visibility),
        }
    }

    pub fn read_offset(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        match self {
            Self::Writer(log) => log.read_offset_with(offset, visibility),
            Self::Reader(log) => log.read_offset_with(offset, visibility),
        }
    }

    pub fn try_read(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        match self {
            Self::Writer(log) => log.try_read_with(id, visibility),
            Self::Reader(log) => log.try_read_with(id, visibility),
        }
    }

    pub fn try_read_offset(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        match self {
            Self::Writer(log) => log.try_read_offset_with(offset, visibility),
            Self::Reader(log) => log.try_read_offset_with(offset, visibility),
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

    pub fn segments(&self) -> Result<Vec<SegmentInfo>> {
        match self {
            Self::Writer(log) => Ok(log.segments()),
            Self::Reader(log) => log.segments(),
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
