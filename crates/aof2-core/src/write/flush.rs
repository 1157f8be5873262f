//! Durability: one sync for many waiters.
//!
//! Whoever needs a record durable and finds nobody syncing becomes the *leader*:
//! it syncs everything appended so far, moves the durable watermark and wakes the
//! others. So a lone caller pays no thread switch, and a crowd pays one sync.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::metrics::count;
use super::stream::Stream;
use crate::error::{AofError, Result};
use crate::format::{WatermarkBody, WatermarkState};
use crate::planted;
use crate::planted::Bug;
use crate::segment::SegmentFlush;
use crate::sync::Position;
use crate::sync::{Interest, WaitQueue};

/// Longest time a leader waits for company, whatever syncs cost.
const GATHER_MAX: Duration = Duration::from_millis(1);
/// Syncs of fewer bytes than this on average make a stream one of small flushes.
const LITTLE_BYTES: u64 = 128 << 10;
/// Rounds without gathering after company failed to come.
const GATHER_PAUSE: usize = 16;

/// The right to sync, and what leaders learn about their company.
#[derive(Debug, Default)]
pub(crate) struct FlushGate {
    busy: AtomicBool,
    /// Callers that came since the last sync began: those the next one serves.
    arrived: AtomicUsize,
    /// How many callers the next sync may expect to serve.
    expected: AtomicUsize,
    pause: AtomicUsize,
    sync_ns: AtomicU64,
    /// Average bytes of a sync.
    sync_bytes: AtomicU64,
    arrivals: WaitQueue,
    /// Rounds finished, well or not: changes whenever waiting may be over.
    rounds: AtomicU64,
    /// A failure that did not stop the stream (no space for a name in the directory),
    /// with the round it happened in, until a round succeeds.
    failure: Mutex<Option<(u64, AofError)>>,
}

impl FlushGate {
    /// A caller wants what it appended durable.
    fn arrive(&self) {
        let arrived = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        self.arrivals.notify_reached(arrived as u64);
    }

    pub(crate) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Acquire)
    }

    /// The failure of a round after `seen`, if no later one succeeded.
    pub(crate) fn failure_since(&self, seen: u64) -> Option<AofError> {
        self.failure.lock().as_ref().filter(|(round, _)| *round > seen).map(|(_, e)| e.clone())
    }

    /// Whether syncs are small, so that each one's fixed cost matters.
    pub(crate) fn flushes_little(&self) -> bool {
        let average = self.sync_bytes.load(Ordering::Relaxed);
        self.rounds() >= 8 && average < LITTLE_BYTES
    }

    fn finish_round(&self, result: &Result<()>) {
        let round = self.rounds.fetch_add(1, Ordering::AcqRel) + 1;
        *self.failure.lock() = result.as_ref().err().map(|error| (round, error.clone()));
        self.busy.store(false, Ordering::Release);
    }

    fn try_lead(&self) -> bool {
        self.busy.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Waits up to the time of a sync for the callers that the last rounds had. Without
    /// it, callers that were just woken miss the next sync and every record costs
    /// two half-empty syncs.
    fn gather(&self) {
        let expected = self.expected.load(Ordering::Relaxed);
        if self.arrived.load(Ordering::Acquire) >= expected {
            return;
        }
        if self.pause.load(Ordering::Relaxed) > 0 {
            self.pause.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let patience = Duration::from_nanos(self.sync_ns.load(Ordering::Relaxed));
        let deadline = Instant::now() + patience.min(GATHER_MAX);
        let company = Interest { target: expected as u64, can_lead: false };
        let came = self.arrivals.wait_for(company, Some(deadline), || {
            (self.arrived.load(Ordering::Acquire) >= expected).then_some(())
        });
        if came.is_none() {
            self.pause.store(GATHER_PAUSE, Ordering::Relaxed);
        }
    }

    /// Learns from a finished round: those it served and those that came meanwhile
    /// may all want the next one.
    fn learn(&self, served: usize, elapsed: Duration, bytes: u64) {
        let company = served + self.arrived.load(Ordering::Acquire);
        self.expected.store(company, Ordering::Relaxed);
        let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let average = self.sync_ns.load(Ordering::Relaxed);
        self.sync_ns.store(average - average / 8 + ns / 8, Ordering::Relaxed);
        let average = self.sync_bytes.load(Ordering::Relaxed);
        self.sync_bytes.store(average - average / 8 + bytes / 8, Ordering::Relaxed);
    }
}

/// What a caller finds when it wants something durable.
enum Turn {
    Done,
    Refused(AofError),
    Lead,
}

/// Everything appended at one moment.
struct Snapshot {
    segments: Vec<(Arc<SegmentFlush>, u32)>,
    position: Position,
    next_offset: u64,
    bytes: u64,
}

impl Stream {
    fn turn(&self, target: Position) -> Option<Turn> {
        if self.durable.position() >= target {
            return Some(Turn::Done);
        }
        if let Some(error) = self.refusal() {
            return Some(Turn::Refused(error));
        }
        self.gate.try_lead().then_some(Turn::Lead)
    }

    /// Returns once everything before `target` is durable. The caller syncs itself
    /// unless somebody else is at it.
    pub(crate) fn flush_until(&self, target: Position, deadline: Option<Instant>) -> Result<()> {
        self.check_not_forked()?;
        self.check_not_fenced()?;
        if self.durable.position() >= target {
            return Ok(());
        }
        self.gate.arrive();
        loop {
            match self.durable.wait_or_lead(target, deadline, || self.turn(target)) {
                None => return Err(AofError::Timeout { what: "a flush" }),
                Some(Turn::Done) => return Ok(()),
                Some(Turn::Refused(error)) => return Err(error),
                Some(Turn::Lead) => self.lead()?,
            }
        }
    }

    /// The same for a task: the background worker leads.
    pub(crate) async fn flush_until_async(&self, target: Position) -> Result<()> {
        self.check_not_forked()?;
        self.check_not_fenced()?;
        if self.durable.position() >= target {
            return Ok(());
        }
        let seen = self.gate.rounds();
        self.gate.arrive();
        self.wakeups.flush_now.notify_one();
        self.durable
            .wait_async(|| {
                if self.durable.position() >= target {
                    return Some(Ok(()));
                }
                self.refusal().or_else(|| self.gate.failure_since(seen)).map(Err)
            })
            .await
    }

    /// The same for a stream that refuses to promise anything, when it is closed.
    pub(crate) fn flush_refused(&self, target: Position) -> Result<()> {
        let turn = || match self.durable.position() >= target {
            true => Some(Turn::Done),
            false => self.gate.try_lead().then_some(Turn::Lead),
        };
        while let Some(Turn::Lead) = self.durable.wait_or_lead(target, None, turn) {
            self.lead()?;
        }
        Ok(())
    }

    /// One round of the background flusher: everything appended so far.
    pub(crate) fn flush_in_background(&self) -> Result<()> {
        let target = {
            let mut tail = self.tail.lock();
            tail.flush_armed = false;
            tail.attention_at = 0;
            tail.position()
        };
        loop {
            match self.durable.wait_or_lead(target, None, || self.turn(target)) {
                None | Some(Turn::Done) => return Ok(()),
                Some(Turn::Refused(error)) => return Err(error),
                Some(Turn::Lead) => self.lead()?,
            }
        }
    }

    /// Syncs as the leader and gives leadership back.
    fn lead(&self) -> Result<()> {
        self.gate.gather();
        let result = self.sync_appended();
        self.gate.finish_round(&result);
        // One wake-up for all that happened: those whose record is durable, and the
        // next leader.
        self.durable.nudge_reached();
        result
    }

    fn snapshot(&self) -> Snapshot {
        let mut tail = self.tail.lock();
        tail.flush_at = tail.bytes.saturating_add(self.config.flush.flush_bytes);
        Snapshot {
            segments: tail.unsealed(),
            position: tail.position(),
            next_offset: tail.next_offset,
            bytes: tail.bytes,
        }
    }

    fn sync_appended(&self) -> Result<()> {
        let served = self.gate.arrived.swap(0, Ordering::AcqRel);
        let snapshot = self.snapshot();
        if snapshot.position == self.durable.position() {
            return Ok(());
        }
        let start = Instant::now();
        let span = tracing::debug_span!("flush", to = snapshot.next_offset, served);
        let _entered = span.enter();
        if planted::is(Bug::AckBeforeSync) {
            self.durable.advance(snapshot.position, snapshot.next_offset);
        }
        let mut synced = 0;
        for (segment, _) in &snapshot.segments {
            let was_named = segment.is_named();
            if let Err(error) = segment.ensure_named(self.store.storage()) {
                let heals = segment.is_name_pending();
                return Err(if heals { error } else { self.poison(&error) });
            }
            if !was_named {
                // An append may wait for that: no segment follows one without a name.
                self.rollover.signal.raise();
            }
        }
        for (segment, end) in &snapshot.segments {
            match segment.sync_to(self.store.storage(), *end) {
                Ok(bytes) => synced += u64::from(bytes),
                Err(_) if planted::is(Bug::IgnoreSyncError) => segment.mark_durable(*end),
                Err(error) => return Err(self.poison(&error)),
            }
        }
        // Other processes first: whoever returns from a flush may look there.
        self.publisher.publish(&WatermarkBody {
            durable_position: snapshot.position.as_u64(),
            durable_count: snapshot.next_offset,
            ..self.watermark_body(WatermarkState::Open)
        });
        self.durable_bytes.store(snapshot.bytes, Ordering::Release);
        self.durable.store(snapshot.position, snapshot.next_offset);
        let elapsed = start.elapsed();
        self.gate.learn(served, elapsed, synced);
        count(&self.metrics.flushes, 1);
        count(&self.metrics.flushed_bytes, synced);
        self.metrics.flush_ns.record_ns(elapsed);
        self.metrics.flush_group.record(served as u64);
        Ok(())
    }
}
