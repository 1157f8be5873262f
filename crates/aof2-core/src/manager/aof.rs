//! The handle to a stream that this process writes.

mod append;
mod durability;
mod manifest;
mod read;
mod scrub;
mod tiers;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::tier::StreamTiers;
use crate::write::AofConfig;
use crate::write::MetricsSnapshot;
use crate::write::Stream;
use crate::write::{RetentionPolicy, RetentionReport};

pub use append::Sealing;
pub use durability::Level;

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
    tiers: Option<Arc<StreamTiers>>,
    workers: parking_lot::Mutex<Option<Box<dyn Workers>>>,
    /// Keeps the manager's runtime alive while the stream is open.
    _keep: Arc<dyn std::any::Any + Send + Sync>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.stream.is_forked() {
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
            .field("root", &self.stream().config().root_dir)
            .field("watermarks", &self.watermarks())
            .finish()
    }
}

impl Aof {
    pub(crate) fn new(
        stream: Arc<Stream>,
        tiers: Option<Arc<StreamTiers>>,
        workers: Option<Box<dyn Workers>>,
        keep: Arc<dyn std::any::Any + Send + Sync>,
    ) -> Self {
        let workers = parking_lot::Mutex::new(workers);
        Self { shared: Arc::new(Shared { stream, tiers, workers, _keep: keep }) }
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.shared.stream
    }

    /// The configuration it was opened with.
    pub fn config(&self) -> &AofConfig {
        self.stream().config()
    }

    /// The longest payload that can be appended.
    pub fn payload_len_max(&self) -> usize {
        self.stream().payload_len_max()
    }

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
        if !self.stream().is_forked() {
            self.shared.workers.lock().take();
        }
        closed
    }

    /// Whether the stream was closed.
    pub fn is_closed(&self) -> bool {
        self.stream().is_closed()
    }
}

fn deadline(timeout: Duration) -> Option<Instant> {
    // A timeout beyond what the clock can express is no timeout.
    Instant::now().checked_add(timeout)
}
