//! Reading: by id, by offset, by time, in order and following.

use super::Aof;
use crate::error::Result;
use crate::format::RecordId;
use crate::read::Record;
use crate::read::Visibility;
use crate::read::reader;
use crate::read::{Cursor, Start};
use crate::read::{Follow, Scan, ScanOptions};
use crate::store::SegmentInfo;

impl Aof {
    /// The record with this id. The writer's own handle reads what it has appended, durable
    /// or not; scans, followers and other handles see durable records unless they ask for
    /// more.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// assert_eq!(&*log.read(id)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self, id: RecordId) -> Result<Record> {
        self.read_with(id, Visibility::Appended)
    }

    /// The record with this id, if it is visible: `NotDurable` if it is appended and only
    /// durable ones are.
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
    pub fn read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        Cursor::read_id(&self.source(), id, visibility)
    }

    /// The record with this logical offset, durable or not: [`Aof::read`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// assert_eq!(&*log.read_offset(0)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_offset(&self, offset: u64) -> Result<Record> {
        self.read_offset_with(offset, Visibility::Appended)
    }

    /// The record with this logical offset, if it is visible: `PastEnd` otherwise, which
    /// says whether it is only not durable yet.
    pub fn read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        reader::read_offset(self.source(), offset, visibility)
    }

    /// The record with this id, durable or not, if it is in a segment file or in memory.
    /// Otherwise `WouldBlock(Hydration)`: the part of the segment that holds it is
    /// fetched in the background, and a later try finds it, or gets the error with which
    /// that failed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// log.flush()?;
    /// assert_eq!(&*log.try_read(id)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_read(&self, id: RecordId) -> Result<Record> {
        self.try_read_with(id, Visibility::Appended)
    }

    /// The record with this id, if it is visible and that costs no wait: [`Aof::try_read`].
    pub fn try_read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        Cursor::try_read_id(&self.source(), id, visibility)
    }

    /// The record with this logical offset, durable or not, if that costs no wait:
    /// [`Aof::try_read`].
    pub fn try_read_offset(&self, offset: u64) -> Result<Record> {
        self.try_read_offset_with(offset, Visibility::Appended)
    }

    /// The record with this logical offset, if it is visible and that costs no wait:
    /// [`Aof::try_read`].
    pub fn try_read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        reader::try_read_offset(self.source(), offset, visibility)
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
    pub fn offset_at(&self, timestamp_ms: u64, visibility: Visibility) -> Result<u64> {
        let start = Start::Timestamp(timestamp_ms);
        Ok(Cursor::new(self.source(), visibility, true, start)?.offset())
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
    pub fn scan(&self, options: ScanOptions) -> Result<Scan> {
        Scan::new(self.source(), options)
    }

    /// A scan that waits for more at the end, until this handle is closed. An
    /// [`AofReader`](crate::read::AofReader)'s goes on with the next writer.
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
    pub fn follow(&self, options: ScanOptions) -> Result<Follow> {
        Follow::new(self.source(), options)
    }

    /// The segments, oldest first.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// let segment = &log.segments()[0];
    /// assert_eq!((segment.first_offset, segment.record_count), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let limit = self.stream().appended().position();
        let next_offset = self.stream().appended().count();
        reader::segment_infos(self.stream().store().table(), limit, next_offset)
    }

    /// First logical offset that still exists.
    pub fn earliest_offset(&self) -> u64 {
        self.stream().store().table().earliest()
    }
}
