//! The shared state of an open stream.
//!
//! Locks, in the order they may be taken: those of background work (`preparing`,
//! `finalizing`, `retaining`), `transitions` (the manifest; never by an append or a
//! flush), a wait queue's (the durable one looks at
//! the refusal), `tail` (appends; never held across I/O), then the segment table or
//! the spare list (lookups only). Wakers run outside all of them. Flush leadership is
//! not a lock but a right that one caller holds at a time, see `flush`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::config::AofConfig;
use super::flush::FlushGate;
use super::metrics::{Metrics, MetricsSnapshot, count};
use super::rollover::Rollover;
use super::tail::Tail;
use super::tiers::Tiers;
use crate::error::{AofError, Result};
use crate::format::{
    PAYLOAD_LEN_MAX, SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFormat, WatermarkBody,
    WatermarkState,
};
use crate::io::{ForkStamp, LockGuard};
use crate::store::{Store, WatermarkPublisher};
use crate::sync::Watermark;

/// How background workers are told that there is something to do.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    /// Something was appended: start the flush timer.
    pub(crate) flush_timer: Notify,
    /// Flush now.
    pub(crate) flush_now: Notify,
    /// Prepare a spare segment.
    pub(crate) spare: Notify,
    /// Fault in the rest of the active segment's pages.
    pub(crate) pages: Notify,
    /// Name the new segment, seal the old one.
    pub(crate) seal: Notify,
    /// Something was recorded in the manifest.
    pub(crate) manifest: Notify,
}

/// An open stream. [`Aof`](crate::manager::Aof) is the handle to it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(super) config: AofConfig,
    /// Its segments.
    pub(super) store: Arc<Store>,
    /// Where they are kept.
    pub(super) tiers: Arc<dyn Tiers>,
    pub(super) tail: Mutex<Tail>,
    pub(super) appended: Watermark,
    pub(super) durable: Watermark,
    /// Stream bytes that are durable.
    pub(super) durable_bytes: AtomicU64,
    pub(super) gate: FlushGate,
    pub(super) rollover: Rollover,
    pub(super) publisher: WatermarkPublisher,
    pub(super) metrics: Metrics,
    pub(super) wakeups: Wakeups,
    pub(super) fork: ForkStamp,
    pub(super) closed: AtomicBool,
    pub(super) poisoned: AtomicBool,
    /// Whether another writer has the log.
    pub(super) fenced: AtomicBool,
    pub(super) lock: Mutex<Option<Box<dyn LockGuard>>>,
    /// Held while closing, so that whoever closes too returns when it is done.
    pub(super) closing: Mutex<()>,
}

impl Stream {
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn config(&self) -> &AofConfig {
        &self.config
    }

    /// How far records were appended.
    pub(crate) fn appended(&self) -> &Watermark {
        &self.appended
    }

    /// How far they are durable.
    pub(crate) fn durable(&self) -> &Watermark {
        &self.durable
    }

    /// What background tasks wait for.
    pub(crate) fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.fork.is_forked()
    }

    /// The identifier that the footers of later segments carry.
    pub(crate) fn set_ext_id(&self, ext_id: u64) {
        self.tail.lock().ext_id = ext_id;
    }

    /// The directory of the log.
    pub(crate) fn root_dir(&self) -> &std::path::Path {
        &self.config.root_dir
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn format(&self) -> SegmentFormat {
        self.store.identity().format
    }

    /// The largest payload a segment of this stream can hold.
    pub(crate) fn payload_len_max(&self) -> usize {
        (self.config.segment_bytes_max as usize)
            .saturating_sub(SEGMENT_HEADER_LEN + SEGMENT_FOOTER_LEN + self.format().header_len())
            .min(PAYLOAD_LEN_MAX)
    }

    /// A forked child has none of the threads that would end its wait.
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        Ok(())
    }

    /// Whoever flushes wants the record kept for good, which is not ours to promise once
    /// another writer has the log, whatever this disk holds.
    pub(crate) fn check_not_fenced(&self) -> Result<()> {
        self.fence_error().map_or(Ok(()), Err)
    }

    /// Why this writer was fenced, from the moment that anybody is told of it.
    pub(crate) fn fence_error(&self) -> Option<AofError> {
        self.fenced.load(Ordering::Acquire).then(|| self.refusal()).flatten()
    }

    /// Whether appends and flushes will never succeed again on this handle.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.is_sound() || self.fenced.load(Ordering::Acquire)
    }

    /// Whether it is neither closed nor poisoned.
    pub(crate) fn is_sound(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && !self.poisoned.load(Ordering::Acquire)
    }

    /// The error that appends and flushes get from now on, if any.
    pub(crate) fn refusal(&self) -> Option<AofError> {
        if self.fork.is_forked() {
            return Some(AofError::Forked);
        }
        if !self.is_stopped() {
            return None;
        }
        self.tail.lock().refusal.clone()
    }

    /// When the segment that is being written became active; `None` while it has no
    /// record.
    pub(crate) fn written_since_ms(&self) -> Option<u64> {
        let tail = self.tail.lock();
        let active = tail.active.as_ref()?;
        let has_records = active.appender.position() as usize > SEGMENT_HEADER_LEN;
        has_records.then_some(active.activated_at_ns / 1_000_000)
    }

    /// After a failed sync nothing more is promised: appends and flushes are
    /// refused, waiters are woken, reads go on.
    pub(crate) fn poison(&self, cause: &AofError) -> AofError {
        count(&self.metrics.flush_failures, 1);
        tracing::error!(error = %cause, "stream poisoned");
        let error = AofError::Poisoned { reason: cause.to_string().into() };
        self.tail.lock().refuse(error.clone());
        self.poisoned.store(true, Ordering::Release);
        self.publisher.publish(&self.watermark_body(WatermarkState::Poisoned));
        self.wake_everyone();
        error
    }

    /// Another writer has the log, or its name: appends, flushes and waits get this error
    /// from now on, and reads go on.
    pub(crate) fn fence(&self, error: &AofError) {
        self.tail.lock().refuse(error.clone());
        if !self.fenced.swap(true, Ordering::AcqRel) {
            tracing::error!(%error, stream = %self.store.identity().name, "this writer is fenced");
        }
        self.wake_everyone();
    }

    /// There may be space for another segment: whoever waits for it looks again.
    pub(crate) fn space_changed(&self) {
        self.rollover.signal.raise();
    }

    pub(crate) fn wake_everyone(&self) {
        self.appended.nudge();
        self.durable.nudge();
        self.store.archived().nudge();
        self.rollover.signal.raise();
    }

    pub(crate) fn watermark_body(&self, state: WatermarkState) -> WatermarkBody {
        WatermarkBody {
            durable_position: self.durable.position().as_u64(),
            durable_count: self.durable.count(),
            appended_position: self.appended.position().as_u64(),
            appended_count: self.appended.count(),
            state,
        }
    }

    pub(crate) fn metrics_snapshot(&self) -> MetricsSnapshot {
        let kept_open = self.store.table().kept_open();
        // In a statement of its own: the lock must be free again before the manifest's is
        // taken, which comes first in the order of locks.
        let appended_bytes = self.tail.lock().bytes;
        let mut snapshot = MetricsSnapshot {
            open_maps: kept_open.maps,
            open_files: kept_open.files,
            stream: self.store.identity().name.clone(),
            appended_records: self.appended.count(),
            durable_records: self.durable.count(),
            appended_bytes,
            durable_bytes: self.durable_bytes.load(Ordering::Acquire),
            segments: self.store.table().len() as u64,
            earliest_offset: crate::read::Segments::of(self).earliest(),
            poisoned: self.poisoned.load(Ordering::Acquire),
            manifest: self.store.manifest_metrics(),
            manifest_failures: self.store.manifest_failures(),
            ..Default::default()
        };
        self.metrics.fill(&mut snapshot);
        snapshot
    }
}
