//! Reading no faster than allowed, and no longer than the log is open.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::error::{AofError, Result};
use crate::segment::ArtifactSource;
use crate::write::Stream;

/// Counts what is read, and slows it down.
#[derive(Debug)]
pub(super) struct Pace {
    /// The log that is read; `None` if it is read from outside, where nobody closes it.
    stream: Option<Arc<Stream>>,
    bytes_per_second: Option<u64>,
    /// When the next byte may be read.
    next: Mutex<Instant>,
    bytes: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Pace {
    pub(super) fn new(stream: Arc<Stream>, bytes_per_second: Option<u64>) -> Arc<Self> {
        Self::of(Some(stream), bytes_per_second)
    }

    pub(super) fn without_stream(bytes_per_second: Option<u64>) -> Arc<Self> {
        Self::of(None, bytes_per_second)
    }

    fn of(stream: Option<Arc<Stream>>, bytes_per_second: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            stream,
            bytes_per_second,
            next: Mutex::new(Instant::now()),
            bytes: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
        })
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whoever reads is told to stop.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Refuses to go on once the log is closed or the caller has enough.
    pub(super) fn check(&self) -> Result<()> {
        if self.stream.as_ref().is_some_and(|stream| stream.is_stopped()) {
            return Err(AofError::Closed);
        }
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(AofError::Cancelled),
            false => Ok(()),
        }
    }

    /// So many bytes were read: waits until more may be. The end of the log ends the
    /// wait.
    pub(super) fn took(&self, bytes: u64) -> Result<()> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(limit) = self.bytes_per_second {
            let cost = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
            let until = {
                let mut next = self.next.lock();
                *next = (*next).max(Instant::now()).checked_add(cost).unwrap_or(*next);
                *next
            };
            match &self.stream {
                Some(stream) => {
                    let stopped = || stream.is_stopped().then_some(());
                    stream.store().archived().wait(Some(until), stopped);
                }
                None => std::thread::sleep(until.saturating_duration_since(Instant::now())),
            }
        }
        self.check()
    }
}

/// An artifact that is read at a pace.
#[derive(Debug)]
pub(super) struct PacedSource {
    pub(super) source: Arc<dyn ArtifactSource>,
    pub(super) pace: Arc<Pace>,
}

impl ArtifactSource for PacedSource {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        self.pace.check()?;
        let bytes = self.source.read_at(offset, len)?;
        self.pace.took(bytes.len() as u64)?;
        Ok(bytes)
    }

    fn name(&self) -> &Path {
        self.source.name()
    }

    fn announce(&self, range: Range<u64>) {
        self.source.announce(range);
    }

    fn forget(&self) {
        self.source.forget();
    }
}
