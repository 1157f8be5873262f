//! `ReadableLog`: reading a log, the same through every handle. `Aof` (this process writes
//! the log) and `AofReader` (any process reads it) differ only in their [`Source`].

use std::fmt::Debug;
use std::sync::Arc;

use super::cursor::{Cursor, Start};
use super::record::Record;
use super::scan::{End, Follow, Scan, ScanOptions};
use super::segments::Segments;
use super::source::{Limit, Source, Visibility, Watermarks};
use crate::error::{AofError, Result};
use crate::format::{RecordId, SegmentFormat, StreamId, StreamIdentity};
use crate::store::{SegmentEntry, SegmentInfo};

/// A handle to a log. Nothing outside of this crate can name it, so that nothing else can
/// be a [`ReadableLog`], which may therefore grow.
pub trait Handle: Send + Sync + Debug {
    /// What is read.
    fn reads(&self) -> Reads;
    /// Which log that is.
    fn identity(&self) -> &StreamIdentity;
}

/// What a handle reads: a [`Source`], which only this crate knows.
#[derive(Debug)]
pub struct Reads(pub(crate) Arc<dyn Source>);

/// Reading a log, through any handle: an [`Aof`](crate::Aof), which this process writes, or
/// an [`AofReader`](crate::AofReader) of a directory or a bucket.
///
/// Both handles have these methods as their own too, so that only generic code needs this
/// trait. They differ in two things:
///
/// * Single records that are read without a [`Visibility`]: the writer's own handle reads
///   what it has appended, durable or not; a reader only what is durable. See
///   [`read_visibility`](Self::read_visibility). Scans and followers see durable records
///   through every handle, unless they ask for more.
/// * The writer knows by itself how far its log has got. Its own `watermarks`, `segments` and
///   `earliest_offset` are therefore no `Result`s.
///
/// ```
/// use aof2_core::{Aof, AofConfig, AofReader, ReadableLog, Result, ScanOptions};
///
/// fn payload_bytes(log: &impl ReadableLog) -> Result<usize> {
///     log.scan(ScanOptions::default())?.map(|record| Ok(record?.payload.len())).sum()
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// let log = Aof::open(AofConfig::new(&path))?;
/// log.append(b"hello")?;
/// log.flush()?;
/// assert_eq!(payload_bytes(&log)?, 5);
/// assert_eq!(payload_bytes(&AofReader::open(&path)?)?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ReadableLog: Handle {
    /// Name of the stream.
    fn name(&self) -> &str {
        &self.identity().name
    }

    /// Id of the stream, drawn when the log was created.
    fn stream_id(&self) -> StreamId {
        self.identity().stream_id
    }

    /// Record layout of the log.
    fn format(&self) -> SegmentFormat {
        self.identity().format
    }

    /// How far the log has got. A reader of a directory finds `appended` by looking at the
    /// newest segment, so it may lag behind a running writer by what that wrote meanwhile.
    /// In a bucket the three watermarks are one.
    fn watermarks(&self) -> Result<Watermarks> {
        self.reads().0.watermarks()
    }

    /// Which records the methods that read a single one see, unless they are told.
    fn read_visibility(&self) -> Visibility {
        self.reads().0.read_visibility()
    }

    /// The record with this id, if it is visible: `NotDurable` if it is appended and only
    /// durable ones are. The writer's own handle sees what it has appended, others see
    /// durable records.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// assert_eq!(&*log.read(id)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn read(&self, id: RecordId) -> Result<Record> {
        self.read_with(id, self.read_visibility())
    }

    /// [`read`](Self::read) of what is visible so.
    ///
    /// ```
    /// use aof2_core::Visibility;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// log.flush()?;
    /// let record = log.read_with(id, Visibility::Durable)?;
    /// assert_eq!(record.offset, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        let source = self.reads().0;
        match Cursor::read_id(&source, id, visibility) {
            Err(AofError::NoSuchRecord(_)) if source.look_again(None)? => {
                Cursor::read_id(&source, id, visibility)
            }
            done => done,
        }
    }

    /// The record with this logical offset, if it is visible: `PastEnd` otherwise, which
    /// says whether it is only not durable yet. Sees what [`read`](Self::read) sees.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// assert_eq!(&*log.read_offset(0)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn read_offset(&self, offset: u64) -> Result<Record> {
        self.read_offset_with(offset, self.read_visibility())
    }

    /// [`read_offset`](Self::read_offset) of what is visible so.
    fn read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        let source = self.reads().0;
        match Cursor::read_offset(&source, offset, visibility) {
            Err(AofError::PastEnd { .. }) if source.look_again(None)? => {
                Cursor::read_offset(&source, offset, visibility)
            }
            done => done,
        }
    }

    /// [`read`](Self::read), if the record is in a segment file or in memory. Otherwise
    /// `WouldBlock(Hydration)`: the part of the segment that holds it is fetched in the
    /// background, and a later try finds it, or gets the error with which that failed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// log.flush()?;
    /// assert_eq!(&*log.try_read(id)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn try_read(&self, id: RecordId) -> Result<Record> {
        self.try_read_with(id, self.read_visibility())
    }

    /// [`try_read`](Self::try_read) of what is visible so.
    fn try_read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        Cursor::try_read_id(&self.reads().0, id, visibility)
    }

    /// [`try_read`](Self::try_read) by logical offset.
    fn try_read_offset(&self, offset: u64) -> Result<Record> {
        self.try_read_offset_with(offset, self.read_visibility())
    }

    /// [`try_read_offset`](Self::try_read_offset) of what is visible so.
    fn try_read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        Cursor::try_read_offset(&self.reads().0, offset, visibility)
    }

    /// Logical offset of the first record whose timestamp is at or after this one;
    /// the end if there is none.
    ///
    /// ```
    /// use aof2_core::{AppendOptions, Visibility};
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// for ms in [1_000, 2_000, 3_000] {
    ///     log.append_record_with(b"x", &AppendOptions { timestamp_ms: Some(ms), ..Default::default() })?;
    /// }
    /// assert_eq!(log.offset_at(1_500, Visibility::Appended)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn offset_at(&self, timestamp_ms: u64, visibility: Visibility) -> Result<u64> {
        let source = self.reads().0;
        source.look_again(None)?;
        let start = Start::Timestamp(timestamp_ms);
        Ok(Cursor::new(source, visibility, true, start)?.offset())
    }

    /// A forward scan of the durable records, up to the last one at its start; see
    /// [`ScanOptions`].
    ///
    /// ```
    /// use aof2_core::{ScanOptions, Start};
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append_batch(&["a", "b", "c"], &Default::default())?;
    /// log.flush()?;
    /// let options = ScanOptions { start: Start::Offset(1), ..Default::default() };
    /// for record in log.scan(options)? {
    ///     println!("{:?}", record?.payload);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn scan(&self, options: ScanOptions) -> Result<Scan> {
        let source = self.reads().0;
        let wanted = match options.end {
            End::Offset(end) => Some(end),
            _ => None,
        };
        source.look_again(wanted)?;
        Scan::new(source, options)
    }

    /// A scan that waits for more at the end.
    ///
    /// One of the writer's own handle ends when that handle is closed. One of a reader goes
    /// on when one writer closes the log and another opens it, unless it is told to follow
    /// [until it is closed](Follow::until_closed), of which a bucket says nothing. It is
    /// woken within milliseconds by a writer in another process, and within seconds by a
    /// segment that appears in the object store.
    ///
    /// ```
    /// use aof2_core::{ScanOptions, Start};
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let mut follow = log.follow(ScanOptions { start: Start::Latest, ..Default::default() })?;
    /// log.append(b"news")?;
    /// let record = follow.next_record(Some(Duration::from_secs(10)))?;
    /// assert_eq!(record.map(|r| r.offset), Some(0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn follow(&self, options: ScanOptions) -> Result<Follow> {
        let source = self.reads().0;
        source.look_again(None)?;
        Follow::new(source, options)
    }

    /// The segments, oldest first, as of now.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("events");
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(&path))?;
    /// log.append(b"hello")?;
    /// log.flush()?;
    /// let segment = &aof2_core::AofReader::open(&path)?.segments()?[0];
    /// assert_eq!((segment.first_offset, segment.record_count), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn segments(&self) -> Result<Vec<SegmentInfo>> {
        let source = self.reads().0;
        source.refresh()?;
        let entries = Segments::of(&*source).all()?;
        Ok(segment_infos(&entries, source.limit(Visibility::Appended)?))
    }

    /// First logical offset that still exists; retention moves it.
    fn earliest_offset(&self) -> Result<u64> {
        let source = self.reads().0;
        source.refresh()?;
        Ok(Segments::of(&*source).earliest())
    }
}

/// What users are told of segments, of which records up to the limit are counted.
pub(crate) fn segment_infos(entries: &[Arc<SegmentEntry>], limit: Limit) -> Vec<SegmentInfo> {
    let mut infos: Vec<SegmentInfo> = Vec::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        let following = entries.get(i + 1).map_or(limit.next_offset, |next| next.meta.first_offset);
        let is_limit = limit.position.segment_index() == entry.meta.segment_id.as_u32();
        let closed = entry.mapped().and_then(|s| s.closed_end()).unwrap_or(0);
        let end = if is_limit { limit.position.end() } else { closed };
        infos.push(SegmentInfo::of(entry, following, end));
    }
    infos
}

/// Gives a handle methods of [`ReadableLog`] as its own, which callers need not import.
macro_rules! own_methods {
    ($handle:ty: $(fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {
        impl $handle {$(
            #[doc = concat!("See [`ReadableLog::", stringify!($name), "`].")]
            pub fn $name(&self $(, $arg: $type)*) -> $result {
                ReadableLog::$name(self $(, $arg)*)
            }
        )*}
    };
}

/// Makes a handle a [`ReadableLog`], with the methods as its own that have the same types
/// for all handles.
macro_rules! readable_log {
    ($handle:ty) => {
        impl ReadableLog for $handle {}

        own_methods! { $handle:
            fn name(&self) -> &str;
            fn stream_id(&self) -> StreamId;
            fn format(&self) -> SegmentFormat;
            fn read_visibility(&self) -> Visibility;
            fn read(&self, id: RecordId) -> Result<Record>;
            fn read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record>;
            fn read_offset(&self, offset: u64) -> Result<Record>;
            fn read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record>;
            fn try_read(&self, id: RecordId) -> Result<Record>;
            fn try_read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record>;
            fn try_read_offset(&self, offset: u64) -> Result<Record>;
            fn try_read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record>;
            fn offset_at(&self, timestamp_ms: u64, visibility: Visibility) -> Result<u64>;
            fn scan(&self, options: ScanOptions) -> Result<Scan>;
            fn follow(&self, options: ScanOptions) -> Result<Follow>;
        }
    };
}

pub(crate) use {own_methods, readable_log};
