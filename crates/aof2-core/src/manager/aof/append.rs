//! Appending, and closing segments.

use std::sync::Arc;
use std::time::Duration;

use super::{Aof, deadline};
use crate::error::{AofError, Result};
use crate::format::{RecordId, SegmentFormat};
use crate::write::{AppendOptions, Appended, AppendedBatch, Stream};

impl Aof {
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
        self.stream().set_ext_id(ext_id);
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
