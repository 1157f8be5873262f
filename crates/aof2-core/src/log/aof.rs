//! The handle to a stream that this process writes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::AofConfig;
use super::cursor::{Cursor, Start};
use super::metrics::MetricsSnapshot;
use super::position::{Position, Watermark};
use super::record::Record;
use super::retention::{RetentionPolicy, RetentionReport};
use super::scan::{Follow, Scan, ScanOptions};
use super::source::{Source, Visibility};
use super::stream::{AppendOptions, Appended, AppendedBatch, Stream};
use super::table::SegmentInfo;
use crate::error::{AofError, Result};
use crate::format::{RecordId, SegmentFormat, SegmentId, StreamId};
use crate::manifest::{Divergence, ManifestIndex, ManifestMode};

/// How far a stream has got: next logical offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Records below this are appended: in the page cache, safe from the death of
    /// this process.
    pub appended: u64,
    /// Records below this are durable: safe from a power cut.
    pub durable: u64,
    /// Records below this are in the object store: safe from the loss of the machine. 0
    /// as long as none is.
    pub archived: u64,
}

/// A level of safety to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Level {
    /// In the page cache.
    Appended,
    /// On disk.
    Durable,
    /// In the object store. Only sealed segments get there.
    Archived,
}

/// Background workers of one stream; dropping them asks them to stop.
pub(crate) trait Workers: Send + Sync {}

/// A stream open for appending and reading. Cheap to clone; the last clone to go
/// closes the stream.
///
/// ```
/// use aof2_core::{AofConfig, AofManager};
///
/// # let dir = tempfile::tempdir()?;
/// let manager = AofManager::new(Default::default())?;
/// let log = manager.open(AofConfig::new(dir.path().join("events")))?;
/// let id = log.append(b"hello")?;
/// log.flush()?;
/// assert_eq!(&*log.read(id)?.payload, b"hello");
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Aof {
    shared: Arc<Shared>,
}

struct Shared {
    stream: Arc<Stream>,
    workers: parking_lot::Mutex<Option<Box<dyn Workers>>>,
    /// Keeps the manager's runtime alive while the stream is open.
    _keep: Arc<dyn std::any::Any + Send + Sync>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.stream.fork.is_forked() {
            // Stopping the parent's tasks and runtime would wait for locks that its
            // threads may have held when this process was forked off.
            std::mem::forget(self.workers.get_mut().take());
            std::mem::forget(Arc::clone(&self._keep));
            return;
        }
        if let Err(error) = self.stream.close() {
            tracing::error!(%error, "closing a dropped stream failed");
        }
    }
}

impl fmt::Debug for Aof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aof")
            .field("root", &self.stream().config.root_dir)
            .field("watermarks", &self.watermarks())
            .finish()
    }
}

impl Aof {
    pub(crate) fn new(
        stream: Arc<Stream>,
        workers: Option<Box<dyn Workers>>,
        keep: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Self {
        let workers = parking_lot::Mutex::new(workers);
        Self { shared: Arc::new(Shared { stream, workers, _keep: keep }) }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.shared.stream
    }

    fn source(&self) -> Arc<dyn Source> {
        Arc::clone(self.stream()) as Arc<dyn Source>
    }

    /// Name of the stream.
    pub fn name(&self) -> &str {
        &self.stream().identity.name
    }

    /// Id of the stream, derived from its name when the log was created.
    pub fn stream_id(&self) -> StreamId {
        self.stream().identity.stream_id
    }

    /// Record layout of the log.
    pub fn format(&self) -> SegmentFormat {
        self.stream().format()
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &AofConfig {
        &self.stream().config
    }

    /// The longest payload that can be appended.
    pub fn payload_len_max(&self) -> usize {
        self.stream().payload_len_max()
    }

    // ---- appending ----

    /// Appends without waiting: `WouldBlock` if there is no room right now. A
    /// record that was refused was not written, so a retry never duplicates.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let appended = log.append_record(b"now or never")?;
    /// assert_eq!(appended.offset, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn append_record(&self, payload: &[u8]) -> Result<Appended> {
        self.stream().append_now(payload, &AppendOptions::default())
    }

    /// [`Aof::append_record`] with a timestamp or flags.
    ///
    /// ```
    /// use aof2_core::AppendOptions;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let options = AppendOptions { timestamp_ms: Some(1_700_000_000_000), ..Default::default() };
    /// log.append_record_with(b"from the past", &options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_record_with(&self, payload: &[u8], options: &AppendOptions) -> Result<Appended> {
        self.stream().append_now(payload, options)
    }

    /// Appends, waiting for room as long as it takes. Returns the record's id.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// log.flush_until(id, None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn append(&self, payload: &[u8]) -> Result<RecordId> {
        let options = AppendOptions::default();
        match self.stream().append_now(payload, &options) {
            Ok(appended) => Ok(appended.id),
            Err(AofError::WouldBlock(_)) => self
                .stream()
                .append_waiting(None, || self.stream().append_now(payload, &options))
                .map(|appended| appended.id),
            Err(error) => Err(error),
        }
    }

    /// Appends, waiting for room up to `timeout`; then `Timeout`, and nothing was
    /// written.
    ///
    /// ```
    /// use aof2_core::AppendOptions;
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let second = Duration::from_secs(1);
    /// log.append_record_with_timeout(b"soon", &AppendOptions::default(), second)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_record_with_timeout(
        &self,
        payload: &[u8],
        options: &AppendOptions,
        timeout: Duration,
    ) -> Result<Appended> {
        let stream = self.stream();
        stream.append_waiting(deadline(timeout), || stream.append_now(payload, options))
    }

    /// Appends, awaiting room. Cancel-safe: if the future is dropped before it
    /// returns, nothing was written.
    ///
    /// ```
    /// use aof2_core::AppendOptions;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// runtime.block_on(async {
    ///     let appended = log.append_record_async(b"later", &AppendOptions::default()).await?;
    ///     log.flush_until_async(appended.id).await
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn append_record_async(
        &self,
        payload: &[u8],
        options: &AppendOptions,
    ) -> Result<Appended> {
        let stream = self.stream();
        stream.append_waiting_async(|| stream.append_now(payload, options)).await
    }

    /// Appends all payloads with one reservation, or none of them, without waiting.
    /// A batch lies in one segment; it must fit into one.
    ///
    /// ```
    /// use aof2_core::AppendOptions;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let batch = log.append_batch(&["one", "two", "three"], &AppendOptions::default())?;
    /// assert_eq!((batch.first_offset, batch.ids.len()), (0, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_batch<P: AsRef<[u8]>>(
        &self,
        payloads: &[P],
        options: &AppendOptions,
    ) -> Result<AppendedBatch> {
        self.stream().append_batch_now(payloads, options)
    }

    /// [`Aof::append_batch`], waiting for room up to `timeout` (`None`: as long as
    /// it takes).
    pub fn append_batch_with_timeout<P: AsRef<[u8]>>(
        &self,
        payloads: &[P],
        options: &AppendOptions,
        timeout: Option<Duration>,
    ) -> Result<AppendedBatch> {
        let stream = self.stream();
        let deadline = timeout.and_then(deadline);
        stream.append_waiting(deadline, || stream.append_batch_now(payloads, options))
    }

    /// [`Aof::append_batch`], awaiting room. Cancel-safe.
    pub async fn append_batch_async<P: AsRef<[u8]>>(
        &self,
        payloads: &[P],
        options: &AppendOptions,
    ) -> Result<AppendedBatch> {
        let stream = self.stream();
        stream.append_waiting_async(|| stream.append_batch_now(payloads, options)).await
    }

    /// Sets the identifier that goes into the footers of segments sealed from now
    /// on. `Full` format only.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.set_ext_id(42)?;
    /// log.append(b"index 42")?;
    /// log.seal()?;
    /// assert_eq!(log.segments()[0].ext_id, Some(42));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_ext_id(&self, ext_id: u64) -> Result<()> {
        if self.format() == SegmentFormat::Compact {
            return Err(AofError::InvalidConfig {
                field: "ext_id",
                reason: "the compact format has no place for it".into(),
            });
        }
        self.stream().tail.lock().ext_id = ext_id;
        Ok(())
    }

    /// Closes the active segment although it is not full and returns when it is
    /// sealed; the next append starts a new one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"the last of its segment")?;
    /// log.seal()?;
    /// assert!(log.segments()[0].is_sealed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seal(&self) -> Result<()> {
        self.stream().seal_now(None)
    }

    /// [`Aof::seal`] for callers that look elsewhere while they wait: the segment is
    /// closed by the first [`Sealing::wait`].
    ///
    /// ```
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"the last of its segment")?;
    /// let mut sealing = log.sealing();
    /// while !sealing.wait(Some(Duration::from_millis(50)))? {
    ///     println!("still sealing");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sealing(&self) -> Sealing {
        Sealing { stream: Arc::clone(self.stream()), is_closed: false }
    }

    /// Writes every block of the active segment once and faults its pages in, so that
    /// the first appends and flushes cost what all others do. For a stream that flushes
    /// little at a time, later segments are prepared like this in the background.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.warm_up()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn warm_up(&self) -> Result<()> {
        self.stream().warm_up()
    }

    // ---- durability ----

    /// Returns when everything appended before the call is durable.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.flush()?;
    /// assert_eq!(log.watermarks().durable, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self) -> Result<()> {
        let position = self.stream().appended.position();
        self.stream().flush_until(position, None)
    }

    /// Returns when this record is durable; `Timeout` if that takes longer.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let first = log.append(b"first")?;
    /// log.append(b"second")?;
    /// log.flush_until(first, None)?;
    /// assert!(log.watermarks().durable >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_until(&self, id: RecordId, timeout: Option<Duration>) -> Result<()> {
        let position = self.position_after(id)?;
        self.stream().flush_until(position, timeout.and_then(deadline))
    }

    /// End of what is appended now, to wait for with [`Aof::flush_to`].
    pub fn appended_position(&self) -> Position {
        self.stream().appended.position()
    }

    /// Returns when everything before this position is durable; `Timeout` if that
    /// takes longer. Several calls may wait for one position.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// let position = log.appended_position();
    /// log.flush_to(position, Some(Duration::from_secs(10)))?;
    /// assert_eq!(log.watermarks().durable, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_to(&self, position: Position, timeout: Option<Duration>) -> Result<()> {
        self.stream().flush_until(position, timeout.and_then(deadline))
    }

    /// [`Aof::flush`] without blocking a thread.
    pub async fn flush_async(&self) -> Result<()> {
        let position = self.stream().appended.position();
        self.stream().flush_until_async(position).await
    }

    /// [`Aof::flush_until`] without blocking a thread.
    pub async fn flush_until_async(&self, id: RecordId) -> Result<()> {
        let position = self.position_after(id)?;
        self.stream().flush_until_async(position).await
    }

    fn position_after(&self, id: RecordId) -> Result<Position> {
        if !self.stream().appended.position().covers(id) {
            return Err(AofError::NoSuchRecord(id));
        }
        Ok(Position::from_u64(id.as_u64() + 1))
    }

    /// How far the stream has got.
    pub fn watermarks(&self) -> Watermarks {
        // Durable first: it never overtakes appended.
        let durable = self.stream().durable.count();
        let archived = self.stream().archived.count();
        Watermarks { appended: self.stream().appended.count(), durable, archived }
    }

    /// Waits until the stream has reached logical offset `count` on this level,
    /// without causing a flush. `false` when the time is up.
    ///
    /// ```
    /// use aof2_core::Level;
    /// use std::time::Duration;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"flushed in the background")?;
    /// assert!(log.wait(Level::Durable, 1, Some(Duration::from_secs(10)))?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, level: Level, count: u64, timeout: Option<Duration>) -> Result<bool> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        let reached = || stream.has_come(level, count);
        match watermark.wait(timeout.and_then(deadline), reached) {
            None => Ok(false),
            Some(true) => Ok(true),
            Some(false) => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    /// [`Aof::wait`] without blocking a thread. Loop over it to subscribe to every
    /// change.
    pub async fn wait_async(&self, level: Level, count: u64) -> Result<()> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        match watermark.wait_async(|| stream.has_come(level, count)).await {
            true => Ok(()),
            false => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    /// [`Aof::wait`] for one record.
    pub fn wait_record(
        &self,
        level: Level,
        id: RecordId,
        timeout: Option<Duration>,
    ) -> Result<bool> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        let reached = || stream.has_come_to(level, watermark, id);
        match watermark.wait(timeout.and_then(deadline), reached) {
            None => Ok(false),
            Some(true) => Ok(true),
            Some(false) => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    /// [`Aof::wait_async`] for one record.
    pub async fn wait_record_async(&self, level: Level, id: RecordId) -> Result<()> {
        let stream = self.stream();
        stream.check_not_forked()?;
        let watermark = self.watermark(level)?;
        match watermark.wait_async(|| stream.has_come_to(level, watermark, id)).await {
            true => Ok(()),
            false => Err(stream.refusal().unwrap_or(AofError::Closed)),
        }
    }

    fn watermark(&self, level: Level) -> Result<&Watermark> {
        let stream = self.stream();
        match level {
            Level::Appended => Ok(stream.watermark(Visibility::Appended)),
            Level::Durable => Ok(stream.watermark(Visibility::Durable)),
            Level::Archived if stream.store.deletes_cold() => Ok(&stream.archived),
            Level::Archived => Err(AofError::InvalidConfig {
                field: "cold",
                reason: "this log was opened without a cold tier, so nothing is archived".into(),
            }),
        }
    }

    // ---- reading ----

    /// The durable record with this id.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"hello")?;
    /// log.flush()?;
    /// assert_eq!(&*log.read(id)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(&self, id: RecordId) -> Result<Record> {
        self.read_with(id, Visibility::Durable)
    }

    /// The record with this id.
    ///
    /// ```
    /// use aof2_core::Visibility;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// let id = log.append(b"not durable yet")?;
    /// let record = log.read_with(id, Visibility::Appended)?;
    /// assert_eq!(record.offset, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        Cursor::read_id(&self.source(), id, visibility)
    }

    /// The durable record with this logical offset.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.flush()?;
    /// assert_eq!(&*log.read_offset(0)?.payload, b"hello");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_offset(&self, offset: u64) -> Result<Record> {
        self.read_offset_with(offset, Visibility::Durable)
    }

    /// The record with this logical offset.
    pub fn read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        super::reader::read_offset(self.source(), offset, visibility)
    }

    /// The durable record with this id, if it is in a segment file or in memory.
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
        self.try_read_with(id, Visibility::Durable)
    }

    /// The record with this id, if that costs no wait: [`Aof::try_read`].
    pub fn try_read_with(&self, id: RecordId, visibility: Visibility) -> Result<Record> {
        Cursor::try_read_id(&self.source(), id, visibility)
    }

    /// The durable record with this logical offset, if that costs no wait:
    /// [`Aof::try_read`].
    pub fn try_read_offset(&self, offset: u64) -> Result<Record> {
        self.try_read_offset_with(offset, Visibility::Durable)
    }

    /// The record with this logical offset, if that costs no wait: [`Aof::try_read`].
    pub fn try_read_offset_with(&self, offset: u64, visibility: Visibility) -> Result<Record> {
        super::reader::try_read_offset(self.source(), offset, visibility)
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

    /// A forward scan.
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

    /// A scan that waits for more at the end.
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
        let limit = self.stream().appended.position();
        let next_offset = self.stream().appended.count();
        super::reader::segment_infos(&self.stream().table, limit, next_offset)
    }

    /// First logical offset that still exists.
    pub fn earliest_offset(&self) -> u64 {
        self.stream().table.earliest()
    }

    // ---- housekeeping ----

    /// Lets old segments go as the policy says.
    ///
    /// ```
    /// use aof2_core::RetentionPolicy;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// for text in ["old", "new"] {
    ///     log.append(text.as_bytes())?;
    ///     log.seal()?;
    /// }
    /// let policy = RetentionPolicy { before_offset: Some(1), ..Default::default() };
    /// let report = log.apply_retention(&policy)?;
    /// assert_eq!((report.segments.len(), log.earliest_offset()), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn apply_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.stream().apply_retention(policy)
    }

    // ---- manifest ----

    /// Whether what happens to segments is recorded.
    pub fn manifest_mode(&self) -> ManifestMode {
        self.stream().manifest_mode()
    }

    /// Starts or stops recording what happens to segments. Starting records what is
    /// there; `Enabled` fails if an existing manifest is damaged, `Shadow` goes on
    /// without it and counts the failure.
    ///
    /// ```
    /// use aof2_core::manifest::ManifestMode;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.seal()?;
    /// log.set_manifest_mode(ManifestMode::Enabled)?;
    /// assert!(log.manifest_index()?.segments().next().is_some_and(|s| s.hot));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_manifest_mode(&self, mode: ManifestMode) -> Result<()> {
        self.stream().set_manifest_mode(mode)
    }

    /// Records an event of the user's own, about a segment (by default the newest one).
    /// Returns its ordinal in the manifest; [`Aof::commit_manifest`] makes it durable.
    ///
    /// ```
    /// use aof2_core::manifest::ManifestMode;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.set_manifest_mode(ManifestMode::Enabled)?;
    /// log.record_event(None, 7, b"backup taken")?;
    /// log.commit_manifest()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn record_event(
        &self,
        segment: Option<SegmentId>,
        schema_id: u32,
        blob: &[u8],
    ) -> Result<u64> {
        self.stream().record_event(segment, schema_id, blob)
    }

    /// Returns when everything recorded in the manifest is durable.
    pub fn commit_manifest(&self) -> Result<()> {
        self.stream().commit_manifest()
    }

    /// Writes a snapshot of the manifest's index, from which replay starts; its id.
    pub fn snapshot_manifest(&self) -> Result<u64> {
        self.stream().snapshot_manifest()
    }

    /// What the manifest says of the segments.
    pub fn manifest_index(&self) -> Result<ManifestIndex> {
        self.stream().manifest_index()
    }

    /// Compares the manifest with the segment files; empty when they agree.
    ///
    /// ```
    /// use aof2_core::manifest::ManifestMode;
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.set_manifest_mode(ManifestMode::Shadow)?;
    /// assert!(log.compare_manifest()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compare_manifest(&self) -> Result<Vec<Divergence>> {
        self.stream().compare_manifest()
    }

    /// Figures of the stream; `to_prometheus` renders them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// assert_eq!(log.metrics().appended_records, 1);
    /// println!("{}", log.metrics().to_prometheus());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn metrics(&self) -> MetricsSnapshot {
        self.stream().metrics_snapshot()
    }

    /// Makes everything durable and closes the stream, for all clones of the
    /// handle. Closing twice is fine.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// log.close()?;
    /// assert!(matches!(log.append(b"too late"), Err(aof2_core::AofError::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        let closed = self.stream().close();
        if !self.stream().fork.is_forked() {
            self.shared.workers.lock().take();
        }
        closed
    }

    /// Whether the stream was closed.
    pub fn is_closed(&self) -> bool {
        self.stream().closed.load(std::sync::atomic::Ordering::Acquire)
    }
}

/// A seal under way; see [`Aof::sealing`].
#[derive(Debug)]
pub struct Sealing {
    stream: Arc<Stream>,
    is_closed: bool,
}

impl Sealing {
    /// Whether the segment has its footer; waits for it up to `timeout` (`None`: as
    /// long as it takes).
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        self.stream.seal_until(&mut self.is_closed, timeout.and_then(deadline))
    }
}

impl Stream {
    /// Whether a level covers a record; `false` once it never will.
    fn has_come_to(&self, level: Level, watermark: &Watermark, id: RecordId) -> Option<bool> {
        if watermark.position().covers(id) {
            return Some(true);
        }
        // Lets the appends be seen, and says whether there will be any.
        self.has_come(level, u64::MAX)
    }

    /// Whether the stream has reached `count` on a level; `false` once it never will.
    fn has_come(&self, level: Level, count: u64) -> Option<bool> {
        match level {
            Level::Appended => self.has_reached(Visibility::Appended, count),
            Level::Durable => self.has_reached(Visibility::Durable, count),
            Level::Archived if self.archived.count() >= count => Some(true),
            Level::Archived => self.is_stopped().then_some(false),
        }
    }
}

fn deadline(timeout: Duration) -> Option<Instant> {
    // A timeout beyond what the clock can express is no timeout.
    Instant::now().checked_add(timeout)
}
