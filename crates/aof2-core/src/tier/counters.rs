//! What moved between the tiers of a stream, counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::check::ScrubCounters;

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

    pub(super) fn snapshot(&self) -> TierMetrics {
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
