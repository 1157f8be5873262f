//! One thing to do for one segment, and what to remember of how it went.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::stream::StreamTiers;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::store::{Change, Residency};
use crate::write::Stream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Out of the hot tier, compressing it first if no other tier holds it.
    Evict,
    /// Back into the hot tier.
    Hydrate,
    /// A compressed copy for the object store.
    Compress,
    /// Ends the segment that is being written, so that it can be archived.
    Seal,
}

/// A job; it holds its stream open for as long as it runs.
#[derive(Debug)]
pub(crate) struct Job {
    kind: Kind,
    segment_id: SegmentId,
    stream: Arc<Stream>,
    tiers: Arc<StreamTiers>,
}

impl Job {
    pub(super) fn evict(
        stream: &Arc<Stream>,
        tiers: &Arc<StreamTiers>,
        segment_id: SegmentId,
    ) -> Self {
        let (stream, tiers) = (Arc::clone(stream), Arc::clone(tiers));
        Self { kind: Kind::Evict, segment_id, stream, tiers }
    }

    pub(super) fn hydrate(
        stream: &Arc<Stream>,
        tiers: &Arc<StreamTiers>,
        segment_id: SegmentId,
    ) -> Self {
        Self { kind: Kind::Hydrate, ..Self::evict(stream, tiers, segment_id) }
    }

    pub(super) fn compress(
        stream: &Arc<Stream>,
        tiers: &Arc<StreamTiers>,
        segment_id: SegmentId,
    ) -> Self {
        Self { kind: Kind::Compress, ..Self::evict(stream, tiers, segment_id) }
    }

    pub(super) fn seal(stream: &Arc<Stream>, tiers: &Arc<StreamTiers>) -> Self {
        // Whose failures are nobody's: the next look tries again.
        Self { kind: Kind::Seal, ..Self::evict(stream, tiers, SegmentId::MAX) }
    }

    /// Does it. Failures are counted, recorded in the manifest and tried again later.
    pub(crate) fn run(self) {
        if self.kind == Kind::Compress {
            self.tiers.coordinator.had_turn(&self.tiers.compress_turn);
        }
        let outcome = match self.kind {
            Kind::Evict => Self::evict_now(&self.stream, &self.tiers, self.segment_id),
            Kind::Hydrate => self.hydrate_now(),
            Kind::Compress => Self::compress_now(&self.stream, &self.tiers, self.segment_id),
            Kind::Seal => self.stream.seal_until(&mut false, None).map(|_| 0),
        };
        self.note(&outcome);
        if self.kind == Kind::Hydrate {
            // What is back must be counted before it is not waited for any more.
            self.tiers.measure(&self.stream);
            self.tiers.activations.lock().finish(self.segment_id, outcome);
        }
        self.tiers.moved(&self.stream);
    }

    /// Moves a segment out of the hot tier on this thread.
    pub(crate) fn evict_now(
        stream: &Stream,
        tiers: &StreamTiers,
        segment_id: SegmentId,
    ) -> Result<u64> {
        let counters = &tiers.counters;
        let start = Instant::now();
        let raw = stream.store().sealed_entry(segment_id)?.record_bytes();
        let bytes = match stream.store().apply(&Change::Evict(segment_id, Residency::Hot)) {
            // No other tier has it for sure.
            Err(AofError::LastCopy(_) | AofError::Cold(_)) => {
                let (compressed, evicted) = stream.store().compress_and_evict(segment_id)?;
                if compressed.is_done {
                    counters.compressed(raw, compressed.bytes, start.elapsed());
                }
                evicted.bytes
            }
            evicted => evicted?.bytes,
        };
        if bytes > 0 {
            counters.evictions.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                stream = %stream.store().identity().name, segment = segment_id.as_u64(), bytes,
                elapsed = ?start.elapsed(), "segment left the hot tier"
            );
        }
        Ok(bytes)
    }

    /// Makes a compressed copy on this thread, if there is none. Returns its bytes.
    pub(crate) fn compress_now(
        stream: &Stream,
        tiers: &StreamTiers,
        segment_id: SegmentId,
    ) -> Result<u64> {
        let (counters, start) = (&tiers.counters, Instant::now());
        let entry = stream.store().sealed_entry(segment_id)?;
        if entry.away_copies().warm.is_some() {
            return Ok(0);
        }
        let raw = entry.sealed_info().map_or(0, |info| u64::from(info.durable_bytes));
        let written = stream.store().apply(&Change::Compress(segment_id))?.bytes;
        counters.compressed(raw, written, start.elapsed());
        Ok(written)
    }

    fn hydrate_now(&self) -> Result<u64> {
        let start = Instant::now();
        let bytes = self.stream.store().apply(&Change::Hydrate(self.segment_id))?.bytes;
        if bytes > 0 {
            self.tiers.counters.hydrated(start.elapsed());
            tracing::info!(
                stream = %self.stream.store().identity().name, segment = self.segment_id.as_u64(), bytes,
                elapsed = ?start.elapsed(), "segment came back to the hot tier"
            );
        }
        Ok(bytes)
    }

    fn note(&self, outcome: &Result<u64>) {
        let mut backoff = self.tiers.backoff.lock();
        let Err(error) = outcome else {
            backoff.succeed(&self.segment_id);
            return;
        };
        match error {
            // Gone, or going: nothing to try again.
            AofError::Closed | AofError::NoSuchSegment(_) | AofError::Forked => {
                backoff.succeed(&self.segment_id);
                return;
            }
            // It is asked for again by whoever needs it, and the store is the one to wait for.
            AofError::Cold(error) if error.is_outage() => backoff.succeed(&self.segment_id),
            // Its own bytes are damaged. It stays where it is, for repair.
            AofError::Corrupt(_) => backoff.give_up(self.segment_id),
            _ => backoff.fail(self.segment_id, self.tiers.coordinator.now_ms()),
        }
        self.tiers.counters.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            %error, stream = %self.stream.store().identity().name, segment = self.segment_id.as_u64(),
            job = ?self.kind, "a move between tiers failed"
        );
    }
}
