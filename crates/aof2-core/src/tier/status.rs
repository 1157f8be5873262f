//! What the tiers of a stream hold and did.

mod prometheus;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::stream::StreamTiers;
use crate::check::ScrubCounters;
use crate::object::{Capabilities, ObjectMetrics};
use crate::store::SegmentEntry;
use crate::write::Stream;

/// Counters of one stream.
#[derive(Debug, Default)]
pub(super) struct TierCounters {
    pub(super) evictions: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) cold_failures: AtomicU64,
    pub(super) warm_evictions: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) scrub: ScrubCounters,
    uploads: AtomicU64,
    uploaded_bytes: AtomicU64,
    upload_ns: AtomicU64,
    compressions: AtomicU64,
    compressed_raw_bytes: AtomicU64,
    compressed_bytes: AtomicU64,
    compression_ns: AtomicU64,
    hydrations: AtomicU64,
    hydration_ns: AtomicU64,
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn ns(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

impl TierCounters {
    pub(super) fn compressed(&self, raw_bytes: u64, bytes: u64, elapsed: Duration) {
        add(&self.compressions, 1);
        add(&self.compressed_raw_bytes, raw_bytes);
        add(&self.compressed_bytes, bytes);
        add(&self.compression_ns, ns(elapsed));
    }

    pub(super) fn hydrated(&self, elapsed: Duration) {
        add(&self.hydrations, 1);
        add(&self.hydration_ns, ns(elapsed));
    }

    pub(super) fn uploaded(&self, bytes: u64, elapsed: Duration) {
        add(&self.uploads, 1);
        add(&self.uploaded_bytes, bytes);
        add(&self.upload_ns, ns(elapsed));
    }

    fn snapshot(&self) -> TierMetrics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TierMetrics {
            // Counted by the store.
            cold_missing: 0,
            evictions: load(&self.evictions),
            failures: load(&self.failures),
            compressions: load(&self.compressions),
            compressed_raw_bytes: load(&self.compressed_raw_bytes),
            compressed_bytes: load(&self.compressed_bytes),
            compression_seconds: load(&self.compression_ns) as f64 / 1e9,
            hydrations: load(&self.hydrations),
            hydration_seconds: load(&self.hydration_ns) as f64 / 1e9,
            warm_evictions: load(&self.warm_evictions),
            uploads: load(&self.uploads),
            uploaded_bytes: load(&self.uploaded_bytes),
            upload_seconds: load(&self.upload_ns) as f64 / 1e9,
            deletes: load(&self.deletes),
            cold_failures: load(&self.cold_failures),
            scrubbed_bytes: load(&self.scrub.bytes),
            scrubbed_segments: load(&self.scrub.segments),
            damage_found: load(&self.scrub.damage_found),
            healed: load(&self.scrub.healed),
        }
    }
}

/// What moved between tiers since the stream was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TierMetrics {
    /// Segments that left the hot tier.
    pub evictions: u64,
    /// Moves that failed; they are tried again.
    pub failures: u64,
    /// Segments compressed.
    pub compressions: u64,
    /// Their bytes before.
    pub compressed_raw_bytes: u64,
    /// Their bytes after.
    pub compressed_bytes: u64,
    /// Time it took.
    pub compression_seconds: f64,
    /// Segments that came back.
    pub hydrations: u64,
    /// Time it took.
    pub hydration_seconds: f64,
    /// Compressed files that left because the object store holds them.
    pub warm_evictions: u64,
    /// Segments that the object store got.
    pub uploads: u64,
    /// Their bytes there.
    pub uploaded_bytes: u64,
    /// Time it took.
    pub upload_seconds: f64,
    /// Objects deleted.
    pub deletes: u64,
    /// Work with the object store that failed; it is tried again.
    pub cold_failures: u64,
    /// Segments that should be in the object store and were not.
    pub cold_missing: u64,
    /// Bytes that scrubs read.
    pub scrubbed_bytes: u64,
    /// Segments whose copies scrubs checked.
    pub scrubbed_segments: u64,
    /// Copies that scrubs found damaged or gone.
    pub damage_found: u64,
    /// Those of them that were replaced.
    pub healed: u64,
}

/// What the object store holds of a stream, and how it answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColdStatus {
    /// Where: `s3://bucket/prefix`.
    pub url: String,
    /// Segments it holds.
    pub segments: u64,
    /// Their bytes there.
    pub bytes: u64,
    /// Records below this offset are in it.
    pub archived: u64,
    /// Sealed segments that it does not hold yet.
    pub uploads_pending: u64,
    /// Objects that are to be deleted.
    pub deletes_pending: u64,
    /// What the endpoint can do, once it was asked.
    pub capabilities: Option<Capabilities>,
    /// Requests of all streams of the manager.
    pub requests: ObjectMetrics,
    /// Why something that should be done is not, if so.
    pub error: Option<String>,
}

/// What the tiers of a stream hold now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TierStatus {
    /// Segments in the hot tier, those being written included.
    pub hot_segments: u64,
    /// Their bytes.
    pub hot_bytes: u64,
    /// Limit for the hot tiers of all streams of the manager.
    pub hot_bytes_max: u64,
    /// The stream's own limit.
    pub stream_hot_bytes_max: Option<u64>,
    /// Segments with a compressed copy on the local disk.
    pub warm_segments: u64,
    /// Bytes of the copies.
    pub warm_bytes: u64,
    /// Limit for the copies of all streams of the manager.
    pub warm_bytes_max: Option<u64>,
    /// What the object store holds, if there is one.
    pub cold: Option<ColdStatus>,
    /// Segments that only lower tiers hold.
    pub evicted_segments: u64,
    /// Segments that may not leave the hot tier.
    pub pinned_segments: u64,
    /// Segments that somebody asked to come back.
    pub activations_pending: u64,
    /// Segments with a copy that the last check found damaged and could not heal.
    pub needs_repair_segments: u64,
    /// When the last scrub of everything ended, milliseconds since the epoch; `None` if
    /// none did yet.
    pub last_scrub_ms: Option<u64>,
    /// What moved.
    pub metrics: TierMetrics,
}

impl TierStatus {
    pub(super) fn of(tiers: &StreamTiers, stream: &Stream) -> Self {
        let mut status = Self {
            hot_bytes: stream.store().hot_usage().total(),
            hot_bytes_max: tiers.coordinator.config().hot_bytes,
            stream_hot_bytes_max: tiers.hot_bytes,
            warm_bytes_max: tiers.coordinator.config().warm_bytes,
            cold: Self::cold_of(tiers, stream),
            pinned_segments: stream.store().pinned_count() as u64,
            activations_pending: tiers.activations.lock().len() as u64,
            needs_repair_segments: tiers.scrub.needs_repair(stream),
            last_scrub_ms: tiers.scrub.completed_ms(),
            metrics: TierMetrics {
                cold_missing: stream.store().cold().missing_count(),
                ..tiers.counters.snapshot()
            },
            ..Self::default()
        };
        for entry in stream.store().table().snapshot() {
            match entry.is_hot() {
                true => status.hot_segments += 1,
                false => status.evicted_segments += 1,
            }
            let copies = entry.copies();
            if let Some(warm) = copies.warm {
                status.warm_segments += 1;
                status.warm_bytes += warm.index().artifact_len();
            }
            if let (Some(held), Some(cold)) = (copies.cold, &mut status.cold) {
                cold.segments += 1;
                cold.bytes += held.len();
            }
        }
        status
    }

    fn cold_of(tiers: &StreamTiers, stream: &Stream) -> Option<ColdStatus> {
        let cold = tiers.coordinator.cold()?;
        Some(ColdStatus {
            url: cold.url().to_string(),
            archived: stream.store().archived().count(),
            uploads_pending: uploads_pending(stream),
            deletes_pending: stream
                .store()
                .look_at_manifest(|index| index.pending_deletes().count() as u64)
                .unwrap_or(0),
            capabilities: cold.capabilities(),
            requests: cold.metrics(),
            // Whoever was just told that the log is another's finds the reason here.
            error: stream.fence_error().map(|e| e.to_string()).or_else(|| tiers.cold_error()),
            ..ColdStatus::default()
        })
    }
}

/// How many sealed segments are not in the object store.
fn uploads_pending(stream: &Stream) -> u64 {
    let entries = stream.store().table().snapshot();
    let is_waiting = |entry: &&Arc<SegmentEntry>| {
        entry.sealed_info().is_some() && entry.damage.is_none() && entry.copies().cold.is_none()
    };
    entries.iter().filter(is_waiting).count() as u64
}
