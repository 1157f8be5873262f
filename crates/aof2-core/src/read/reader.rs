//! The handle to a log that somebody else may be writing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bucket::Remote;
use super::directory::ReadOnly;
use super::readable::{Handle, ReadableLog, Reads, own_methods, readable_log};
use super::record::Record;
use super::scan::{Follow, Scan, ScanOptions};
use super::source::{Source, Visibility, Watermarks};
use crate::bucket::{Archive, ArchivedObject};
use crate::error::Result;
use crate::format::{RecordId, SegmentFormat, StreamId, StreamIdentity};
use crate::io::Storage;
use crate::store::ColdStore;
use crate::store::SegmentInfo;
use crate::store::refuse_address;

/// A log that is read where it is stored, a directory or a bucket.
pub(crate) trait StoredLog: Source {
    /// Its directory or its address.
    fn root(&self) -> &Path;
    fn identity(&self) -> &StreamIdentity;
    fn writer_pid(&self) -> Option<u32>;
    fn closed_cleanly(&self) -> Option<bool>;
}

/// A log open for reading, in any process, while a writer may run. Takes no lock
/// and writes nothing.
///
/// ```
/// use aof2_core::{Aof, AofConfig, AofReader, ScanOptions};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// let log = Aof::open(AofConfig::new(&path))?;
/// log.append(b"hello")?;
/// log.flush()?;
///
/// let reader = AofReader::open(&path)?;
/// let records: Vec<_> = reader.scan(ScanOptions::default())?.collect::<Result<_, _>>()?;
/// assert_eq!(&*records[0].payload, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AofReader {
    log: Arc<dyn StoredLog>,
}

impl Handle for AofReader {
    fn reads(&self) -> Reads {
        Reads(Arc::clone(&self.log) as Arc<dyn Source>)
    }

    fn identity(&self) -> &StreamIdentity {
        self.log.identity()
    }
}

readable_log!(AofReader);

// What a reader has to look at the log for, which may fail.
own_methods! { AofReader:
    fn watermarks(&self) -> Result<Watermarks>;
    fn segments(&self) -> Result<Vec<SegmentInfo>>;
    fn earliest_offset(&self) -> Result<u64>;
}

impl AofReader {
    /// Sealed segments that a reader keeps mapped.
    const OPEN_SEGMENTS_MAX: usize = 256;

    /// Opens a log whose sealed segments may be in tiers that this store reaches.
    pub(crate) fn open_with(
        storage: Arc<dyn Storage>,
        store: Arc<ColdStore>,
        root: impl AsRef<Path>,
    ) -> Result<Self> {
        refuse_address(root.as_ref())?;
        let log = ReadOnly::open(storage, store, root.as_ref(), Self::OPEN_SEGMENTS_MAX, true)?;
        Ok(Self { log: Arc::new(log) })
    }

    /// Opens a log of which an object store listed these segments.
    pub(crate) fn open_archive(
        archive: Arc<dyn Archive>,
        identity: StreamIdentity,
        listed: &[ArchivedObject],
    ) -> Result<Self> {
        Ok(Self { log: Arc::new(Remote::open(archive, identity, listed)?) })
    }

    /// Directory of the log, or its address in the object store.
    pub fn root(&self) -> PathBuf {
        self.log.root().to_owned()
    }

    /// Process that last opened the log for writing, if its watermark file says.
    pub fn writer_pid(&self) -> Option<u32> {
        self.log.writer_pid()
    }

    /// Whether the last writer closed the log cleanly; `None` if that is unknown.
    pub fn closed_cleanly(&self) -> Option<bool> {
        self.log.closed_cleanly()
    }

    /// What the reader knows, for the messages of failing tests.
    #[cfg(test)]
    pub(crate) fn describe(&self) -> String {
        use super::{Limit, segment_infos};
        let nothing = Limit { position: Default::default(), next_offset: 0 };
        let segments: Vec<String> = segment_infos(&self.log.table().snapshot(), nothing)
            .iter()
            .map(|s| {
                format!(
                    "{}@{}+{} sealed {}",
                    s.segment_id, s.first_offset, s.record_count, s.is_sealed
                )
            })
            .collect();
        let limit = self.log.limit(Visibility::Durable);
        format!("segments {segments:?}, limit {limit:?}, log {:?}", self.log)
    }
}
