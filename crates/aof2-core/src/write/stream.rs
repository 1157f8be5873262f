//! The shared state of an open stream, and the append path.
//!
//! Locks, in the order they may be taken: those of background work (`preparing`,
//! `finalizing`, `retaining`), `transitions` (the manifest; never by an append or a
//! flush), a wait queue's (the durable one looks at
//! the refusal), `tail` (appends; never held across I/O), then the segment table or
//! the spare list (lookups only). Wakers run outside all of them. Flush leadership is
//! not a lock but a right that one caller holds at a time, see `flush`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::config::AofConfig;
use super::flush::FlushGate;
use super::metrics::{Metrics, MetricsSnapshot, count};
use super::retention::RetentionPolicy;
use super::rollover::Rollover;
use super::tail::Tail;
use super::tiers::Tiers;
use super::time::timestamp_refusal;
use crate::error::{AofError, BackpressureKind, Result};
use crate::format::{
    PAYLOAD_LEN_MAX, RecordFlags, RecordId, RecordMeta, SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN,
    SegmentFormat, SegmentId, WatermarkBody, WatermarkState,
};
use crate::io::{ForkStamp, LockGuard};
use crate::planted;
use crate::planted::Bug;
use crate::segment::{SegmentFlush, SegmentFull};
use crate::store::{Owner, Store, Unsealed, WatermarkPublisher};
use crate::sync::{Position, Watermark};

/// One append in this many is timed and traced.
const SAMPLE_EVERY: u64 = 1024;

/// What an append may say about its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppendOptions {
    /// Timestamp in milliseconds since the epoch; by default now. May be out of
    /// order, up to [`TIMESTAMP_MS_MAX`](crate::TIMESTAMP_MS_MAX), in the compact format
    /// up to the year 2554.
    pub timestamp_ms: Option<u64>,
    /// Flags: snapshot boundary, control frame. `Full` format only.
    pub flags: RecordFlags,
}

/// Where a record went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its id: segment and byte.
    pub id: RecordId,
    /// Its logical offset.
    pub offset: u64,
}

/// Where the records of a batch went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendedBatch {
    /// Ids in the order of the payloads.
    pub ids: Vec<RecordId>,
    /// Logical offset of the first.
    pub first_offset: u64,
}

/// How two tries at appending ended.
enum Attempt<T> {
    Done(Result<T>),
    /// On what, and the state to sleep on.
    Blocked(BackpressureKind, u64),
}

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

    /// Appends without waiting. A refused record was not written.
    #[inline]
    pub(crate) fn append_now(&self, payload: &[u8], options: &AppendOptions) -> Result<Appended> {
        self.check_record(payload.len(), options)?;
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        let mut tail = self.tail.lock();
        let record_len = record_len(self.format(), payload.len());
        let sample = tail.next_offset.is_multiple_of(SAMPLE_EVERY).then(Instant::now);
        if tail.bytes + record_len as u64 > tail.attention_at {
            self.attend(&mut tail, record_len)?;
        }
        let result = self.write_record(&mut tail, payload, options)?;
        self.publish_appended(&mut tail);
        let wanted = self.appended.has_sleepers();
        drop(tail);
        if wanted {
            self.appended.nudge();
        }
        if let Some(start) = sample {
            self.metrics.append_ns.record_ns(start.elapsed());
            tracing::trace!(offset = result.offset, id = %result.id, bytes = payload.len(), "append");
        }
        Ok(result)
    }

    /// Appends many records with one reservation: all of them or none.
    pub(crate) fn append_batch_now<P: AsRef<[u8]>>(
        &self,
        payloads: &[P],
        options: &AppendOptions,
    ) -> Result<AppendedBatch> {
        let format = self.format();
        let mut total = 0usize;
        for payload in payloads {
            self.check_record(payload.as_ref().len(), options)?;
            total = total.saturating_add(record_len(format, payload.as_ref().len()));
        }
        self.check_batch(total)?;
        if self.fork.is_forked() {
            return Err(AofError::Forked);
        }
        let mut tail = self.tail.lock();
        let first_offset = tail.next_offset;
        if payloads.is_empty() {
            return Ok(AppendedBatch { ids: Vec::new(), first_offset });
        }
        if tail.bytes + total as u64 > tail.attention_at {
            self.attend(&mut tail, total)?;
        }
        let mut ids = Vec::with_capacity(payloads.len());
        for payload in payloads {
            ids.push(self.write_record(&mut tail, payload.as_ref(), options)?.id);
        }
        self.publish_appended(&mut tail);
        let wanted = self.appended.has_sleepers();
        drop(tail);
        if wanted {
            self.appended.nudge();
        }
        Ok(AppendedBatch { ids, first_offset })
    }

    #[inline]
    fn check_record(&self, payload_len: usize, options: &AppendOptions) -> Result<()> {
        let is_too_late =
            options.timestamp_ms.is_some_and(|ms| ms > self.format().timestamp_ms_max());
        if payload_len == 0
            || payload_len > self.payload_len_max()
            || options.flags != RecordFlags::NONE
            || is_too_late
        {
            self.explain_record(payload_len, options)?;
        }
        Ok(())
    }

    #[cold]
    fn explain_record(&self, payload_len: usize, options: &AppendOptions) -> Result<()> {
        let invalid = |reason: String| Err(AofError::InvalidRecord { reason });
        let max = self.payload_len_max();
        let flags = options.flags;
        if let Some(reason) =
            options.timestamp_ms.and_then(|ms| timestamp_refusal(self.format(), ms))
        {
            return invalid(reason);
        }
        if payload_len == 0 {
            return invalid("the payload is empty".into());
        }
        if payload_len > max {
            return invalid(format!(
                "the payload has {payload_len} bytes, this log takes at most {max} \
                 (segment_bytes_max less headers)"
            ));
        }
        let allowed = RecordFlags::SNAPSHOT_BOUNDARY.union(RecordFlags::CONTROL);
        if !allowed.contains(flags) {
            return invalid(format!("flags {:#x} are reserved", flags.bits()));
        }
        if flags != RecordFlags::NONE && self.format() == SegmentFormat::Compact {
            return invalid("the compact format has no flags".into());
        }
        Ok(())
    }

    /// A batch lies in one segment, so it must fit into one.
    fn check_batch(&self, total: usize) -> Result<()> {
        let max = self.config.segment_bytes_max as usize - SEGMENT_HEADER_LEN - SEGMENT_FOOTER_LEN;
        if total > max {
            return Err(AofError::InvalidRecord {
                reason: format!(
                    "the batch needs {total} bytes with headers, one segment holds {max}"
                ),
            });
        }
        Ok(())
    }

    /// Copies one record into the active segment; space was made before.
    #[inline]
    fn write_record(
        &self,
        tail: &mut Tail,
        payload: &[u8],
        options: &AppendOptions,
    ) -> Result<Appended> {
        let timestamp_ms = match options.timestamp_ms {
            Some(given) => given,
            None => tail.time.now_ms(),
        };
        let offset = tail.next_offset;
        let lag = offset.saturating_sub(self.durable.count());
        let meta = RecordMeta {
            logical_offset: offset,
            timestamp_ms,
            flags: options.flags,
            durable_lag: u32::try_from(lag).unwrap_or(u32::MAX),
        };
        let Some(active) = tail.active.as_mut() else {
            return Err(AofError::WouldBlock(BackpressureKind::Admission));
        };
        let before = active.appender.position();
        let written = active
            .appender
            .append_record(&meta, payload)
            .map_err(|SegmentFull| AofError::WouldBlock(BackpressureKind::Rollover))?;
        active.last_timestamp_ms = active.last_timestamp_ms.max(timestamp_ms);
        tail.next_offset = offset + 1;
        tail.bytes += u64::from(written.end - before);
        Ok(Appended { id: written.id, offset })
    }

    /// Orders a waiter for `appended` with the appends: called after it announced
    /// itself and before it looks. Whoever appends after this sees the sleeper inside
    /// the same lock, whoever appended before is seen by the look. So an append needs
    /// no fence of its own.
    pub(crate) fn meet_appends(&self) {
        drop(self.tail.lock());
    }

    #[inline]
    fn publish_appended(&self, tail: &mut Tail) {
        if let Some(active) = tail.active.as_mut() {
            active.appender.publish();
            let position = Position::new(
                active.appender.segment().meta().segment_id,
                active.appender.position(),
            );
            self.appended.store(position, tail.next_offset);
        }
    }

    /// The slow path of an append: everything that is not copying. Ends with
    /// `attention_at` set to the next byte at which something is due.
    #[cold]
    fn attend(&self, tail: &mut Tail, record_len: usize) -> Result<()> {
        if let Some(error) = &tail.refusal {
            return Err(error.clone());
        }
        if planted::is(Bug::WriteThenRefuse) && tail.next_offset % 7 == 3 {
            let _ = self.write_record(tail, &[0xBB; 8], &AppendOptions::default());
            self.publish_appended(tail);
            return Err(AofError::WouldBlock(BackpressureKind::Flush));
        }
        self.make_space(tail, record_len).inspect_err(|e| self.count_block(e))?;
        let after = tail.bytes + record_len as u64;
        let refuse_at = self.check_unflushed(tail, after).inspect_err(|e| self.count_block(e))?;
        if after >= tail.flush_at {
            self.wakeups.flush_now.notify_one();
            tail.flush_at = after + self.config.flush.flush_bytes;
        }
        if !tail.flush_armed {
            tail.flush_armed = true;
            self.wakeups.flush_timer.notify_one();
        }
        let mut segment_due = u64::MAX;
        if let Some(active) = tail.active.as_mut() {
            if after >= active.spare_at {
                active.spare_at = u64::MAX;
                self.wakeups.spare.notify_one();
            }
            if after >= active.fault_in_at {
                active.fault_in_at = u64::MAX;
                self.wakeups.pages.notify_one();
            }
            let due = active.due_at(tail.bytes);
            segment_due = due.min(active.spare_at).min(active.fault_in_at);
        }
        tail.attention_at = refuse_at.min(tail.flush_at).min(segment_due);
        Ok(())
    }

    /// Refuses what would exceed `max_unflushed_bytes`; a record larger than the
    /// limit passes when nothing else waits. Returns the byte to check again at.
    fn check_unflushed(&self, tail: &Tail, after: u64) -> Result<u64> {
        let durable = self.durable_bytes.load(Ordering::Acquire);
        let limit = durable.saturating_add(self.config.flush.max_unflushed_bytes);
        // An empty new segment's header counts as appended but cannot be flushed.
        if after > limit && tail.bytes > durable + SEGMENT_HEADER_LEN as u64 {
            self.wakeups.flush_now.notify_one();
            let failure = self.gate.failure_since(0);
            return Err(failure.unwrap_or(AofError::WouldBlock(BackpressureKind::Flush)));
        }
        Ok(limit)
    }

    fn count_block(&self, error: &AofError) {
        match error {
            AofError::WouldBlock(BackpressureKind::Admission) => {
                count(&self.metrics.blocked_admission, 1);
            }
            AofError::WouldBlock(BackpressureKind::Rollover) => {
                count(&self.metrics.blocked_rollover, 1);
            }
            AofError::WouldBlock(BackpressureKind::Flush) => count(&self.metrics.blocked_flush, 1),
            _ => {}
        }
    }

    /// Tries twice: what is waited for may happen between a refusal and going to sleep,
    /// so the state to sleep on is noted before the second try.
    fn try_append<T>(&self, append: &mut impl FnMut() -> Result<T>) -> Attempt<T> {
        loop {
            let kind = match append() {
                Err(AofError::WouldBlock(kind)) => kind,
                done => return Attempt::Done(done),
            };
            let seen = self.progress(kind);
            match append() {
                Err(AofError::WouldBlock(again)) if again == kind => {
                    return Attempt::Blocked(kind, seen);
                }
                Err(AofError::WouldBlock(_)) => {}
                done => return Attempt::Done(done),
            }
        }
    }

    /// Appends, waiting for space until the deadline.
    pub(crate) fn append_waiting<T>(
        &self,
        deadline: Option<Instant>,
        mut append: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match self.try_append(&mut append) {
                Attempt::Done(done) => return done,
                Attempt::Blocked(kind, seen) if self.wait_progress(kind, seen, deadline) => {}
                Attempt::Blocked(..) => {
                    return Err(AofError::Timeout { what: "space to append" });
                }
            }
        }
    }

    /// The same without blocking a thread. Cancel-safe: a dropped future has
    /// either appended and returned, or written nothing.
    pub(crate) async fn append_waiting_async<T>(
        &self,
        mut append: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            let (kind, seen) = match self.try_append(&mut append) {
                Attempt::Done(done) => return done,
                Attempt::Blocked(kind, seen) => (kind, seen),
            };
            match kind {
                BackpressureKind::Flush => {
                    self.durable.wait_async(|| (self.progress(kind) != seen).then_some(())).await;
                }
                _ => self.rollover.signal.wait_async(seen).await,
            }
        }
    }

    /// A number that changes when the named obstacle may be gone.
    fn progress(&self, kind: BackpressureKind) -> u64 {
        match kind {
            BackpressureKind::Flush if self.is_stopped() => u64::MAX,
            BackpressureKind::Flush => self.gate.rounds(),
            _ => self.rollover.signal.seen(),
        }
    }

    fn wait_progress(&self, kind: BackpressureKind, seen: u64, deadline: Option<Instant>) -> bool {
        match kind {
            BackpressureKind::Flush => self
                .durable
                .wait(deadline, || (self.progress(kind) != seen).then_some(()))
                .is_some(),
            _ => self.rollover.signal.wait(seen, deadline),
        }
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
            earliest_offset: self.store.table().earliest(),
            poisoned: self.poisoned.load(Ordering::Acquire),
            manifest: self.store.manifest_metrics(),
            manifest_failures: self.store.manifest_failures(),
            ..Default::default()
        };
        self.metrics.fill(&mut snapshot);
        snapshot
    }
}

#[inline]
fn record_len(format: SegmentFormat, payload_len: usize) -> usize {
    (format.header_len() + payload_len).next_multiple_of(crate::format::RECORD_ALIGN)
}

impl Owner for Stream {
    fn refusal(&self) -> Option<AofError> {
        self.refusal()
    }

    fn fence(&self, error: &AofError) {
        self.fence(error);
    }

    fn poison(&self, cause: &AofError) -> AofError {
        self.poison(cause)
    }

    fn unsealed(&self) -> Vec<Unsealed> {
        let tail = self.tail.lock();
        let closing = tail.closing.as_ref().map(|c| &c.flush);
        let active = tail.active.as_ref().map(|a| &a.flush);
        let unsealed = |flush: &Arc<SegmentFlush>| Unsealed {
            meta: *flush.segment().meta(),
            is_named: flush.is_named(),
        };
        closing.into_iter().chain(active).map(unsealed).collect()
    }

    fn next_segment(&self) -> SegmentId {
        self.tail.lock().next_segment
    }

    fn appended_count(&self) -> u64 {
        self.appended.count()
    }

    fn durable_count(&self) -> u64 {
        self.durable.count()
    }

    fn manifest_changed(&self) {
        self.wakeups.manifest.notify_one();
    }

    fn trim_before(&self, offset: u64) -> Result<()> {
        let policy = RetentionPolicy { before_offset: Some(offset), ..Default::default() };
        self.apply_retention(&policy).map(drop)
    }
}
