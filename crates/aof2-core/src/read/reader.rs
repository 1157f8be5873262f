//! The handle to a log that somebody else may be writing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bucket::Remote;
use super::cursor::{Cursor, Start};
use super::directory::ReadOnly;
use super::record::Record;
use super::scan::{End, Follow, Scan, ScanOptions};
use super::source::Watermarks;
use super::source::{Source, Visibility};
use crate::bucket::Archive;
use crate::bucket::ArchivedObject;
use crate::error::{AofError, Damage, Result};
use crate::format::{RecordId, SegmentFormat, StreamId, StreamIdentity};
use crate::io::Storage;
use crate::store::ColdStore;
use crate::store::refuse_address;
use crate::store::{SegmentInfo, SegmentTable};
use crate::sync::Position;

/// What a reader asks of a log, wherever it is.
pub(crate) trait ReadLog: Source {
    /// Its directory or its address.
    fn root(&self) -> &Path;
    fn identity(&self) -> &StreamIdentity;
    /// How far the object store holds the stream without a gap, as of the last look.
    fn archived(&self) -> u64;
    /// Looks for what nobody announces, unless everything below the offset `wanted` is
    /// known. Whether it did: not if that was a moment ago, or if everything is announced.
    fn look_again(&self, wanted: Option<u64>) -> Result<bool>;
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
    log: Arc<dyn ReadLog>,
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

    fn source(&self) -> Arc<dyn Source> {
        Arc::clone(&self.log) as Arc<dyn Source>
    }

    /// Directory of the log, or its address in the object store.
    pub fn root(&self) -> PathBuf {
        self.log.root().to_owned()
    }

    /// Name of the stream.
    pub fn name(&self) -> &str {
        &self.log.identity().name
    }

    /// Id of the stream.
    pub fn stream_id(&self) -> StreamId {
        self.log.identity().stream_id
    }

    /// Record layout of the log.
    pub fn format(&self) -> SegmentFormat {
        self.log.identity().format
    }

    /// How far the writer has got. `appended` is found by looking at the newest
    /// segment, so it may lag behind a running writer by what it wrote meanwhile.
    pub fn watermarks(&self) -> Result<Watermarks> {
        self.log.look_again(None)?;
        Ok(Watermarks {
            durable: self.log.limit(Visibility::Durable)?.next_offset,
            appended: self.log.limit(Visibility::Appended)?.next_offset,
            archived: self.log.archived(),
        })
    }

    /// Process that last opened the log for writing, if its watermark file says.
    pub fn writer_pid(&self) -> Option<u32> {
        self.log.writer_pid()
    }

    /// Whether the last writer closed the log cleanly; `None` if that is unknown.
    pub fn closed_cleanly(&self) -> Option<bool> {
        self.log.closed_cleanly()
    }

    /// The durable record with this id.
    pub fn read(&self, id: RecordId) -> Result<Record> {
        self.read_with(id, Visibility::Durable)
    }

    /// The record with this id.
    pub fn read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        match Cursor::read_id(&self.source(), id, visibility) {
            Err(AofError::NoSuchRecord(_)) if self.log.look_again(None)? => {
                Cursor::read_id(&self.source(), id, visibility)
            }
            done => done,
        }
    }

    /// The durable record with this logical offset.
    pub fn read_offset(&self, offset: u64) -> Result<Record> {
        self.read_offset_with(offset, Visibility::Durable)
    }

    /// The record with this logical offset.
    pub fn read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        match read_offset(self.source(), offset, visibility) {
            Err(AofError::PastEnd { .. }) if self.log.look_again(None)? => {
                read_offset(self.source(), offset, visibility)
            }
            done => done,
        }
    }

    /// The durable record with this id, if that costs no wait: [`Aof::try_read`].
    ///
    /// [`Aof::try_read`]: crate::Aof::try_read
    pub fn try_read(&self, id: RecordId) -> Result<Record> {
        self.try_read_with(id, Visibility::Durable)
    }

    /// The record with this id, if that costs no wait.
    pub fn try_read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        Cursor::try_read_id(&self.source(), id, visibility)
    }

    /// The durable record with this logical offset, if that costs no wait.
    pub fn try_read_offset(&self, offset: u64) -> Result<Record> {
        self.try_read_offset_with(offset, Visibility::Durable)
    }

    /// The record with this logical offset, if that costs no wait.
    pub fn try_read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        try_read_offset(self.source(), offset, visibility)
    }

    /// Logical offset of the first record whose timestamp is at or after this one;
    /// the end if there is none.
    pub fn offset_at(&self, timestamp_ms: u64, visibility: Visibility) -> Result<u64> {
        self.log.look_again(None)?;
        let start = Start::Timestamp(timestamp_ms);
        Ok(Cursor::new(self.source(), visibility, true, start)?.offset())
    }

    /// A forward scan.
    pub fn scan(&self, options: ScanOptions) -> Result<Scan> {
        let wanted = match options.end {
            End::Offset(end) => Some(end),
            _ => None,
        };
        self.log.look_again(wanted)?;
        Scan::new(self.source(), options)
    }

    /// A scan that waits for more at the end: woken within milliseconds by a
    /// writer in another process, within seconds by a segment that appears in the
    /// object store. It goes on when one writer closes the log and another opens it,
    /// unless it is told to follow [until it is closed](Follow::until_closed); of that a
    /// bucket says nothing.
    pub fn follow(&self, options: ScanOptions) -> Result<Follow> {
        self.log.look_again(None)?;
        Follow::new(self.source(), options)
    }

    /// The segments, oldest first, as of now.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>> {
        self.log.refresh()?;
        let limit = self.log.limit(Visibility::Appended)?;
        Ok(segment_infos(self.log.table(), limit.position, limit.next_offset))
    }

    /// What the reader knows, for the messages of failing tests.
    #[cfg(test)]
    pub(crate) fn describe(&self) -> String {
        let segments: Vec<String> = segment_infos(self.log.table(), Position::default(), 0)
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

    /// First logical offset that still exists.
    pub fn earliest_offset(&self) -> Result<u64> {
        self.log.refresh()?;
        Ok(self.log.table().earliest())
    }
}

pub(crate) fn read_offset(
    source: Arc<dyn Source>,
    offset: u64,
    visibility: Visibility,
) -> Result<Record> {
    check_end(&*source, offset, visibility)?;
    record_at(Cursor::new(source, visibility, true, Start::Offset(offset))?, offset)
}

/// The same without waiting for what is not in memory.
pub(crate) fn try_read_offset(
    source: Arc<dyn Source>,
    offset: u64,
    visibility: Visibility,
) -> Result<Record> {
    check_end(&*source, offset, visibility)?;
    record_at(Cursor::trying(source, visibility, Start::Offset(offset))?, offset)
}

fn check_end(source: &dyn Source, offset: u64, visibility: Visibility) -> Result<()> {
    let end = source.limit(visibility)?.next_offset;
    if offset >= end { Err(past_end(source, offset, end, visibility)) } else { Ok(()) }
}

/// The error for an offset that is not visible: it may be appended already.
pub(crate) fn past_end(
    source: &dyn Source,
    offset: u64,
    end: u64,
    visibility: Visibility,
) -> AofError {
    let is_appended = visibility == Visibility::Durable
        && source.limit(Visibility::Appended).is_ok_and(|limit| offset < limit.next_offset);
    AofError::PastEnd { offset, end, is_appended }
}

fn record_at(mut cursor: Cursor, offset: u64) -> Result<Record> {
    let end = cursor.end_offset();
    let past_end = AofError::PastEnd { offset, end, is_appended: false };
    let Some((segment, place)) = cursor.next_place()? else { return Err(past_end) };
    if place.offset != offset {
        return Err(AofError::Corrupt(Box::new(Damage {
            path: segment.path().to_owned(),
            offset: u64::from(place.position),
            records: offset..place.offset,
            reason: "these records were lost and the log was repaired without them".into(),
        })));
    }
    Ok(place.to_record(&segment))
}

pub(crate) fn segment_infos(
    table: &SegmentTable,
    limit: Position,
    next_offset: u64,
) -> Vec<SegmentInfo> {
    let entries = table.snapshot();
    let mut infos: Vec<SegmentInfo> = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let following = entries.get(i + 1).map_or(next_offset, |next| next.meta.first_offset);
        let is_limit = limit.segment_index() == entry.meta.segment_id.as_u32();
        let closed = entry.mapped().and_then(|s| s.closed_end()).unwrap_or(0);
        let end = if is_limit { limit.end() } else { closed };
        infos.push(SegmentInfo::of(entry, following, end));
    }
    infos
}
