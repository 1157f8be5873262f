//! What the tiers of a stream hold and did.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::stream::StreamTiers;
use crate::log::Stream;

/// Counters of one stream.
#[derive(Debug, Default)]
pub(super) struct TierCounters {
    pub(super) jobs: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) failures: AtomicU64,
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

    fn snapshot(&self) -> TierMetrics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TierMetrics {
            evictions: load(&self.evictions),
            failures: load(&self.failures),
            compressions: load(&self.compressions),
            compressed_raw_bytes: load(&self.compressed_raw_bytes),
            compressed_bytes: load(&self.compressed_bytes),
            compression_seconds: load(&self.compression_ns) as f64 / 1e9,
            hydrations: load(&self.hydrations),
            hydration_seconds: load(&self.hydration_ns) as f64 / 1e9,
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
}

/// What the tiers of a stream hold now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
    /// Segments that only lower tiers hold.
    pub evicted_segments: u64,
    /// Segments that may not leave the hot tier.
    pub pinned_segments: u64,
    /// Segments that somebody asked to come back.
    pub activations_pending: u64,
    /// What moved.
    pub metrics: TierMetrics,
}

impl TierStatus {
    pub(super) fn of(tiers: &StreamTiers, stream: &Stream) -> Self {
        let mut status = Self {
            hot_bytes: stream.hot_usage().total(),
            hot_bytes_max: tiers.coordinator.config().hot_bytes,
            stream_hot_bytes_max: tiers.hot_bytes,
            pinned_segments: tiers.pinned.lock().len() as u64,
            activations_pending: tiers.activations.lock().len() as u64,
            metrics: tiers.counters.snapshot(),
            ..Self::default()
        };
        for entry in stream.table.snapshot() {
            match entry.is_hot() {
                true => status.hot_segments += 1,
                false => status.evicted_segments += 1,
            }
            if let Some(warm) = entry.away_copies().warm {
                status.warm_segments += 1;
                status.warm_bytes += warm.index().artifact_len();
            }
        }
        status
    }

    /// Prometheus text, every line labelled with the stream.
    pub fn to_prometheus(&self, stream: &str) -> String {
        let label = stream.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let mut text = String::new();
        let mut line = |kind: &str, name: &str, help: &str, value: f64| {
            let _ = writeln!(text, "# HELP aof2_tier_{name} {help}");
            let _ = writeln!(text, "# TYPE aof2_tier_{name} {kind}");
            let _ = writeln!(text, "aof2_tier_{name}{{stream=\"{label}\"}} {value}");
        };
        let m = &self.metrics;
        line("gauge", "hot_segments", "Segments in the hot tier.", self.hot_segments as f64);
        line("gauge", "hot_bytes", "Bytes in the hot tier.", self.hot_bytes as f64);
        line("gauge", "hot_bytes_max", "Limit of all streams.", self.hot_bytes_max as f64);
        line("gauge", "warm_segments", "Compressed segments.", self.warm_segments as f64);
        line("gauge", "warm_bytes", "Bytes of compressed segments.", self.warm_bytes as f64);
        line(
            "gauge",
            "evicted_segments",
            "Segments not in the hot tier.",
            self.evicted_segments as f64,
        );
        line("gauge", "pinned_segments", "Segments that stay hot.", self.pinned_segments as f64);
        line(
            "gauge",
            "activations_pending",
            "Segments asked for.",
            self.activations_pending as f64,
        );
        line("counter", "evictions_total", "Segments that left the hot tier.", m.evictions as f64);
        line("counter", "failures_total", "Moves that failed.", m.failures as f64);
        line("counter", "compressions_total", "Segments compressed.", m.compressions as f64);
        line(
            "counter",
            "compressed_raw_bytes_total",
            "Their bytes before.",
            m.compressed_raw_bytes as f64,
        );
        line("counter", "compressed_bytes_total", "Their bytes after.", m.compressed_bytes as f64);
        line(
            "counter",
            "compression_seconds_total",
            "Time spent compressing.",
            m.compression_seconds,
        );
        line("counter", "hydrations_total", "Segments that came back.", m.hydrations as f64);
        line("counter", "hydration_seconds_total", "Time spent on it.", m.hydration_seconds);
        text
    }
}
