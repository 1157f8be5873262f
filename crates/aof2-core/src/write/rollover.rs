//! Moving from one segment to the next.
//!
//! The appender only swaps pointers: the spare it takes was allocated, mapped and
//! faulted in before. Background steps do the rest: [`Stream::finalize_step`] gives
//! the new segment its name and the old one its footer, [`Stream::prepare_step`]
//! makes spares.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::metrics::count;
use super::stream::Stream;
use super::tail::{Active, Closing, Tail};
use crate::error::{AofError, BackpressureKind, Result};
use crate::format::{SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN};
use crate::planted;
use crate::planted::Bug;
use crate::segment::{
    FIRST_PAGES_LEN, SealRequest, Segment, SegmentFlush, SegmentMeta, Spare, SpareSync,
};
use crate::store::{SealedInfo, SegmentEntry};
use crate::sync::Signal;

/// A segment that fills faster than this makes the next one twice as large.
const GROW_BELOW: Duration = Duration::from_secs(2);
/// A segment that fills slower than this makes the next one half as large.
const SHRINK_ABOVE: Duration = Duration::from_secs(60);

/// Spares, and the signal that something about rollover changed.
#[derive(Debug)]
pub(crate) struct Rollover {
    /// Raised when a spare is ready or could not be made, when a segment got its
    /// name or its footer, and when the stream stops.
    pub(crate) signal: Signal,
    spares: Mutex<VecDeque<Spare>>,
    /// Files that are not needed after all, to be removed in the background.
    discarded: Mutex<Vec<std::path::PathBuf>>,
    /// Why the last spare could not be made; given to the next append that needs
    /// one.
    failure: Mutex<Option<AofError>>,
    /// Size of the next spare.
    next_bytes: AtomicU32,
    next_ordinal: AtomicU64,
    bytes_min: u32,
    bytes_max: u32,
    /// Held while a spare is made, while a segment is finalized, while retention
    /// runs: background work and close, never an append.
    pub(crate) preparing: Mutex<()>,
    finalizing: Mutex<()>,
    pub(crate) retaining: Mutex<()>,
}

impl Rollover {
    pub(crate) fn new(
        bytes_min: u32,
        bytes_max: u32,
        next_bytes: u32,
        unused: Vec<std::path::PathBuf>,
        next_spare: u64,
    ) -> Self {
        Self {
            signal: Signal::default(),
            spares: Mutex::default(),
            discarded: Mutex::new(unused),
            failure: Mutex::default(),
            next_bytes: AtomicU32::new(next_bytes.clamp(bytes_min, bytes_max)),
            next_ordinal: AtomicU64::new(next_spare),
            bytes_min,
            bytes_max,
            preparing: Mutex::default(),
            finalizing: Mutex::default(),
            retaining: Mutex::default(),
        }
    }

    /// A spare with space for `record_bytes`, if one is ready.
    fn take(&self, record_bytes: usize) -> Option<Spare> {
        let needed = record_bytes + SEGMENT_HEADER_LEN + SEGMENT_FOOTER_LEN;
        let mut spares = self.spares.lock();
        while let Some(spare) = spares.pop_front() {
            if spare.segment_bytes() as usize >= needed {
                return Some(spare);
            }
            self.discarded.lock().push(spare.path().to_owned());
        }
        drop(spares);
        let at_least = u32::try_from(needed.next_power_of_two()).unwrap_or(u32::MAX);
        self.next_bytes.fetch_max(at_least.min(self.bytes_max), Ordering::AcqRel);
        None
    }

    /// Adapts the size to how long the last segment lasted. Returns whether the
    /// stream is busy.
    fn adapt(&self, segment_bytes: u32, lasted: Duration) -> bool {
        let next = if lasted < GROW_BELOW {
            segment_bytes.saturating_mul(2)
        } else if lasted > SHRINK_ABOVE {
            segment_bytes / 2
        } else {
            segment_bytes
        };
        self.next_bytes.store(next.clamp(self.bytes_min, self.bytes_max), Ordering::Release);
        lasted < GROW_BELOW
    }

    pub(crate) fn spare_count(&self) -> usize {
        self.spares.lock().len()
    }

    /// Size of the segment that will be active next.
    fn next_size(&self) -> u64 {
        let ready = self.spares.lock().front().map(Spare::segment_bytes);
        u64::from(ready.unwrap_or_else(|| self.next_bytes.load(Ordering::Acquire)))
    }
}

/// What a request to seal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealStart {
    /// The active segment is closed now and waits for its footer.
    Closed,
    /// Another segment still waits for its footer.
    Busy,
    /// Nothing to seal, or it is done.
    Idle,
}

impl Active {
    /// Stream byte at which the segment needs a look: its soft target or its end.
    pub(crate) fn due_at(&self, bytes: u64) -> u64 {
        bytes + u64::from(self.appender.bytes_until_due())
    }
}

impl Stream {
    /// Makes sure that the active segment has space, swapping in a spare if it has
    /// none. Never waits.
    pub(crate) fn make_space(&self, tail: &mut Tail, record_bytes: usize) -> Result<()> {
        let Some(active) = &tail.active else {
            // At most one segment may be without its name: recovery adopts one.
            let may_start =
                tail.closing.as_ref().is_none_or(|c| c.flush.is_named()) && self.is_admitted();
            let spare = if may_start { self.rollover.take(record_bytes) } else { None };
            return match spare {
                Some(spare) => self.activate(tail, spare, false),
                None => self.would_block(BackpressureKind::Admission),
            };
        };
        let fits = active.appender.fits(record_bytes);
        if fits && !active.appender.is_full() {
            return Ok(());
        }
        let is_admitted = self.is_admitted();
        let may_roll = tail.closing.is_none() && active.flush.is_named() && is_admitted;
        let spare = if may_roll { self.rollover.take(record_bytes) } else { None };
        match spare {
            Some(spare) => self.roll(tail, spare),
            // Only the soft target is reached: go on until the segment is full.
            None if fits => Ok(()),
            None if !is_admitted => self.would_block(BackpressureKind::Admission),
            None => self.would_block(BackpressureKind::Rollover),
        }
    }

    /// Whether the tiers have space for another active segment and its successor.
    fn is_admitted(&self) -> bool {
        let segments = 1 + u64::from(self.config.preallocate_segments > 0);
        self.tiers.admits(segments * self.rollover.next_size())
    }

    fn would_block(&self, kind: BackpressureKind) -> Result<()> {
        self.tiers.notify();
        self.wakeups.spare.notify_one();
        self.wakeups.seal.notify_one();
        match self.rollover.failure.lock().take() {
            Some(error) => Err(error),
            None => Err(AofError::WouldBlock(kind)),
        }
    }

    fn roll(&self, tail: &mut Tail, spare: Spare) -> Result<()> {
        let busy = self.close_active(tail);
        self.activate(tail, spare, busy)
    }

    /// Takes the active segment out of service. Returns whether it filled quickly.
    fn close_active(&self, tail: &mut Tail) -> bool {
        let Some(active) = tail.active.take() else { return false };
        let meta = *active.appender.segment().meta();
        let lasted = tail.time.now_ns().saturating_sub(active.activated_at_ns);
        let busy = self.rollover.adapt(meta.segment_bytes, Duration::from_nanos(lasted));
        if active.appender.is_empty() {
            // Too small for the record that wants in: never used, never needed.
            self.store.table().remove_last(meta.segment_id.as_u32());
            // It has its name: only then it may be replaced.
            self.rollover.discarded.lock().push(active.flush.segment().path().to_owned());
            tail.next_segment = meta.segment_id;
            tail.bytes = meta.base_offset;
            return busy;
        }
        tail.closing = Some(Closing {
            end: active.appender.position(),
            record_count: tail.next_offset - meta.first_offset,
            last_timestamp_ms: active.last_timestamp_ms,
            ext_id: tail.ext_id,
            flush: active.flush,
        });
        active.appender.close();
        busy
    }

    pub(crate) fn activate(&self, tail: &mut Tail, spare: Spare, busy: bool) -> Result<()> {
        let segment_id = tail.next_segment;
        if segment_id.as_u64() >= u64::from(u32::MAX) {
            return Err(AofError::InvalidRecord {
                reason: "the log has used up its segment ids".into(),
            });
        }
        let now_ns = tail.time.now_ns();
        tail.last_created_ns = now_ns.max(tail.last_created_ns + 1);
        let meta = SegmentMeta {
            stream_id: self.store.identity().stream_id,
            segment_id,
            format: self.format(),
            base_offset: tail.bytes,
            first_offset: tail.next_offset,
            created_at_ns: tail.last_created_ns,
            segment_bytes: spare.segment_bytes(),
        };
        let target = self.target_bytes();
        let is_faulted_in = spare.is_faulted_in();
        let (flush, appender) =
            Segment::create_active(spare, meta, &self.store.layout().segments_dir(), target);
        self.store.table().push(SegmentEntry::unsealed(std::sync::Arc::clone(flush.segment())));
        tail.next_segment = segment_id.next();
        tail.bytes += SEGMENT_HEADER_LEN as u64;
        let half = u64::from(meta.segment_bytes / 2);
        tail.active = Some(Active {
            appender,
            flush,
            last_timestamp_ms: 0,
            activated_at_ns: now_ns,
            fault_in_at: match is_faulted_in {
                true => u64::MAX,
                false => tail.bytes + u64::from(FIRST_PAGES_LEN / 2),
            },
            spare_at: match (self.config.preallocate_segments, busy) {
                (0, _) => u64::MAX,
                (_, true) => 0,
                (_, false) => tail.bytes + half,
            },
        });
        tail.attention_at = 0;
        count(&self.metrics.rollovers, 1);
        self.tiers.activated(u64::from(meta.segment_bytes));
        self.wakeups.seal.notify_one();
        Ok(())
    }

    pub(crate) fn target_bytes(&self) -> u32 {
        self.config.segment_target_bytes.map_or(u32::MAX, |b| u32::try_from(b).unwrap_or(u32::MAX))
    }

    /// Whether a spare segment is ready.
    pub(crate) fn has_spare(&self) -> bool {
        self.rollover.spare_count() > 0
    }

    /// Background: makes one spare if fewer are ready than wanted. Returns whether
    /// it did something.
    pub(crate) fn prepare_step(&self) -> Result<bool> {
        self.prepare_spare(match self.gate.flushes_little() {
            true => SpareSync::Blocks,
            false => SpareSync::Length,
        })
    }

    /// [`Stream::prepare_step`] with a given care.
    pub(crate) fn prepare_spare(&self, synced: SpareSync) -> Result<bool> {
        let _preparing = self.rollover.preparing.lock();
        if self.is_stopped() {
            return Ok(false);
        }
        self.remove_discarded();
        if self.rollover.spare_count() >= self.config.preallocate_segments.max(1) {
            return Ok(false);
        }
        let bytes = self.rollover.next_bytes.load(Ordering::Acquire);
        let ordinal = self.rollover.next_ordinal.fetch_add(1, Ordering::Relaxed);
        let start = Instant::now();
        let dir = self.store.layout().segments_dir();
        let made = Spare::prepare(self.store.storage(), &dir, ordinal, bytes, synced);
        match made {
            Ok(spare) => {
                tracing::debug!(bytes, elapsed = ?start.elapsed(), "spare segment ready");
                self.rollover.spares.lock().push_back(spare);
                self.rollover.signal.raise();
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(%error, "spare segment could not be prepared");
                self.note_failure(&error);
                Err(error)
            }
        }
    }

    /// Background: names the active segment and finalizes the closing one. Returns
    /// whether it did something.
    pub(crate) fn finalize_step(&self) -> Result<bool> {
        let _finalizing = self.rollover.finalizing.lock();
        let (unnamed, closing) = {
            let tail = self.tail.lock();
            let unnamed = tail.active.as_ref().map(|a| &a.flush).filter(|f| !f.is_named()).cloned();
            (unnamed, tail.closing.clone())
        };
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        if let Some(flush) = &unnamed {
            flush.ensure_named(self.store.storage()).map_err(|e| self.naming_failed(flush, e))?;
            self.rollover.signal.raise();
        }
        self.store.tell_opened();
        let worked = unnamed.is_some() || closing.is_some();
        if let Some(closing) = closing {
            self.finalize(&closing).inspect_err(|error| self.note_failure(error))?;
            drop(closing);
            // Only now nobody here holds the segment, and it may leave the hot tier.
            self.tiers.notify();
        }
        Ok(worked)
    }

    /// No space for a name in the directory heals; everything else poisons.
    fn naming_failed(&self, flush: &SegmentFlush, error: AofError) -> AofError {
        if !flush.is_name_pending() {
            return self.poison(&error);
        }
        self.note_failure(&error);
        error
    }

    /// Tells whoever waits for a rollover why it does not come.
    fn note_failure(&self, error: &AofError) {
        *self.rollover.failure.lock() = Some(error.clone());
        self.rollover.signal.raise();
    }

    fn finalize(&self, closing: &Closing) -> Result<()> {
        let meta = closing.flush.segment().meta();
        let span = tracing::info_span!("seal", segment = meta.segment_id.as_u64());
        let _entered = span.enter();
        if !planted::is(Bug::SealBeforeSync) {
            self.flush_until(closing.end_position(), None)?;
        }
        let request = SealRequest {
            record_count: closing.record_count,
            last_timestamp_ms: closing.last_timestamp_ms,
            ext_id: closing.ext_id,
            flags: 0,
            sealed_at_ns: self.store.clock().now_ns(),
            build_index: self.config.enable_sparse_index,
        };
        // Being short of descriptors passes: the segment waits for its footer until then.
        let file = closing
            .flush
            .open_file(self.store.storage())
            .map_err(|error| if error.is_out_of_files() { error } else { self.poison(&error) })?;
        let sealed = self.store.seal(meta, || {
            let info = SealedInfo::from(&closing.flush.seal(&*file, closing.end, &request)?);
            self.store.store_index(closing.flush.segment(), &info);
            if let Some(entry) = self.store.table().find(meta.segment_id.as_u32()) {
                entry.mark_sealed(info);
            }
            Ok(info)
        });
        sealed.map_err(|error| self.poison(&error))?;
        {
            let mut tail = self.tail.lock();
            tail.closing = None;
            tail.attention_at = 0;
        }
        count(&self.metrics.segments_sealed, 1);
        self.metrics.segment_bytes.record(u64::from(closing.end));
        self.tiers.sealed(u64::from(meta.segment_bytes), u64::from(closing.end));
        self.rollover.signal.raise();
        Ok(())
    }

    /// Closes the active segment although it is not full, and returns when it has
    /// its footer. Does nothing when there is nothing to seal.
    pub(crate) fn seal_now(&self, deadline: Option<Instant>) -> Result<()> {
        self.check_not_forked()?;
        let mut closed = false;
        match self.seal_until(&mut closed, deadline)? {
            true => Ok(()),
            false => Err(AofError::Timeout { what: "the segment to be sealed" }),
        }
    }

    /// [`Stream::seal_now`] in pieces: `false` when the time is up. `closed` says
    /// whether the segment was closed by an earlier piece.
    pub(crate) fn seal_until(&self, closed: &mut bool, deadline: Option<Instant>) -> Result<bool> {
        self.check_not_forked()?;
        loop {
            let seen = self.rollover.signal.seen();
            match self.start_seal(*closed)? {
                SealStart::Idle => return Ok(true),
                SealStart::Closed => *closed = true,
                SealStart::Busy => {}
            }
            self.wakeups.spare.notify_one();
            self.wakeups.seal.notify_one();
            if !self.rollover.signal.wait(seen, deadline) {
                return Ok(false);
            }
            if let Some(error) = self.rollover.failure.lock().take() {
                return Err(error);
            }
        }
    }

    /// The first half of sealing: takes the active segment out of service.
    pub(crate) fn start_seal(&self, already_closed: bool) -> Result<SealStart> {
        let mut tail = self.tail.lock();
        if let Some(error) = &tail.refusal {
            return Err(error.clone());
        }
        if tail.closing.is_some() {
            return Ok(SealStart::Busy);
        }
        let empty = tail.active.as_ref().is_none_or(|a| a.appender.is_empty());
        if already_closed || empty {
            return Ok(SealStart::Idle);
        }
        self.close_active(&mut tail);
        tail.attention_at = 0;
        Ok(SealStart::Closed)
    }

    /// Background: removes what an earlier writer left unused. Under the lock that
    /// close waits for: afterwards the names may be the next writer's.
    pub(crate) fn remove_unused(&self) {
        let _preparing = self.rollover.preparing.lock();
        self.remove_discarded();
        self.store.drop_stray_indexes();
    }

    fn remove_discarded(&self) {
        for path in std::mem::take(&mut *self.rollover.discarded.lock()) {
            if let Err(error) = self.store.storage().remove(&path) {
                tracing::warn!(path = %path.display(), %error, "unused segment stays on disk");
            }
        }
    }

    /// Gives the disk space of spares back.
    pub(crate) fn discard_spares(&self) -> Result<()> {
        let spares = std::mem::take(&mut *self.rollover.spares.lock());
        for spare in spares {
            spare.discard(self.store.storage())?;
        }
        for path in std::mem::take(&mut *self.rollover.discarded.lock()) {
            self.store
                .storage()
                .remove(&path)
                .map_err(AofError::io("remove unused segment", &path))?;
        }
        Ok(())
    }
}

impl Stream {
    /// Background: gives spares back that nobody came for. The next ones start
    /// small again, and are asked for once half of what is left is used.
    pub(crate) fn release_idle_spares(&self) {
        {
            let mut tail = self.tail.lock();
            let bytes = tail.bytes;
            if let Some(active) = tail.active.as_mut() {
                active.spare_at = bytes + u64::from(active.appender.bytes_until_due() / 2);
            }
            tail.attention_at = 0;
        }
        self.rollover.next_bytes.store(self.rollover.bytes_min, Ordering::Release);
        let _preparing = self.rollover.preparing.lock();
        if let Err(error) = self.discard_spares() {
            tracing::warn!(%error, "spare segment stays on disk");
        }
    }

    /// Prepares the active segment as well as a spare can be.
    pub(crate) fn warm_up(&self) -> Result<()> {
        self.check_not_forked()?;
        let flush = self.tail.lock().active.as_ref().map(|a| std::sync::Arc::clone(&a.flush));
        match flush {
            Some(flush) => {
                let file = flush.open_file(self.store.storage())?;
                flush.write_blocks_once(&*file).map_err(|e| self.poison(&e))
            }
            None => Ok(()),
        }
    }

    /// Background: faults in what is still to be written of the first segment since the
    /// log was opened. Those that follow are faulted in before they are needed.
    pub(crate) fn fault_in_active(&self) {
        let flush = self.tail.lock().active.as_ref().map(|a| std::sync::Arc::clone(&a.flush));
        if let Some(flush) = flush {
            flush.fault_in_rest();
        }
    }
}
