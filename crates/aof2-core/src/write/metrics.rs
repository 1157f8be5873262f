//! What a stream counts. Plain atomics: a scrape costs the writer nothing, and
//! what the watermarks already say (records, bytes) is not counted twice.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::manifest::ManifestMetrics;
use crate::prometheus::{Kind, PrometheusText};

/// Buckets of a histogram: up to powers of two, the last one open.
const BUCKETS: usize = 40;

/// A histogram over powers of two.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub(crate) fn record(&self, value: u64) {
        // The exponent of the smallest power of two that is not below it.
        let bucket = u64::BITS - value.saturating_sub(1).leading_zeros();
        let bucket = (bucket as usize).min(BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
    }

    pub(crate) fn record_ns(&self, elapsed: Duration) {
        self.record(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    }

    fn snapshot(&self) -> HistogramSnapshot {
        let counts: Vec<u64> = self.buckets.iter().map(|b| b.load(Ordering::Relaxed)).collect();
        HistogramSnapshot {
            count: counts.iter().sum(),
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
            counts,
        }
    }
}

/// A histogram's state: `counts[i]` values were at most `2^i` and above `2^(i-1)`; the last
/// count has all that were larger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Values recorded.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    /// The largest of them.
    pub max: u64,
    /// Values per bucket.
    pub counts: Vec<u64>,
}

impl HistogramSnapshot {
    /// A value that is not below this quantile (0 to 1), and less than twice as large: the
    /// bound of its bucket, or the largest value. 0 when empty.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (self.count as f64 * q.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return if i + 1 < self.counts.len() { self.max.min(1 << i) } else { self.max };
            }
        }
        0
    }

    /// As the histogram `name`, in units of which a value is `unit`.
    fn add_to(&self, text: &mut PrometheusText, name: &str, help: &str, unit: f64) {
        let mut family = text.family(name, Kind::Histogram, help);
        let mut seen = 0;
        let last = self.counts.iter().rposition(|&c| c > 0).map_or(0, |i| i + 1);
        // The last bucket has no bound but infinity.
        for (i, count) in self.counts.iter().take(last.min(BUCKETS - 1)).enumerate() {
            seen += count;
            let bound = ((1u64 << i) as f64 * unit).to_string();
            family.sample("_bucket", &[("le", &bound)], seen);
        }
        family.sample("_bucket", &[("le", "+Inf")], self.count);
        family.sample("_sum", &[], self.sum as f64 * unit);
        family.sample("_count", &[], self.count);
    }
}

/// Live counters of a stream.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) flush_failures: AtomicU64,
    pub(crate) rollovers: AtomicU64,
    pub(crate) segments_sealed: AtomicU64,
    pub(crate) segments_removed: AtomicU64,
    pub(crate) segments_archived: AtomicU64,
    pub(crate) blocked_admission: AtomicU64,
    pub(crate) blocked_rollover: AtomicU64,
    pub(crate) blocked_flush: AtomicU64,
    pub(crate) blocked_hydration: AtomicU64,
    pub(crate) corrupt_reads: AtomicU64,
    /// 1 while retention by age stops at a timestamp in the future.
    pub(crate) retention_in_future: AtomicU64,
    pub(crate) recovery_ns: AtomicU64,
    pub(crate) recovery_truncated_bytes: AtomicU64,
    pub(crate) append_ns: Histogram,
    pub(crate) flush_ns: Histogram,
    pub(crate) flush_group: Histogram,
    pub(crate) segment_bytes: Histogram,
}

pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// All figures of a stream at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Name of the stream.
    pub stream: String,
    /// Records appended since the log was created, trimmed ones included.
    pub appended_records: u64,
    /// Records that are durable.
    pub durable_records: u64,
    /// Stream bytes appended, headers included.
    pub appended_bytes: u64,
    /// Stream bytes that are durable.
    pub durable_bytes: u64,
    /// Segments on disk.
    pub segments: u64,
    /// Segments that are mapped, those being written included.
    pub open_maps: u64,
    /// Compressed segments whose files are open.
    pub open_files: u64,
    /// First logical offset that still exists.
    pub earliest_offset: u64,
    /// Figures of the manifest, while it is written.
    pub manifest: Option<ManifestMetrics>,
    /// Times the manifest could not be written and was let go.
    pub manifest_failures: u64,
    /// Syncs done since open.
    pub flushes: u64,
    /// Bytes made durable since open.
    pub flushed_bytes: u64,
    /// Syncs that failed.
    pub flush_failures: u64,
    /// Changes of the active segment since open.
    pub rollovers: u64,
    /// Footers written since open.
    pub segments_sealed: u64,
    /// Segments deleted by retention since open.
    pub segments_removed: u64,
    /// Segments archived by retention since open.
    pub segments_archived: u64,
    /// Appends refused for want of a segment.
    pub blocked_admission: u64,
    /// Appends refused during a rollover.
    pub blocked_rollover: u64,
    /// Appends refused because too much was unflushed.
    pub blocked_flush: u64,
    /// Reads refused because the record is not in memory.
    pub blocked_hydration: u64,
    /// Reads that met damage.
    pub corrupt_reads: u64,
    /// Whether retention by age stops at a segment whose newest timestamp lies in the
    /// future.
    pub retention_in_future: bool,
    /// How long opening took.
    pub recovery_ns: u64,
    /// Bytes of torn tail that opening removed.
    pub recovery_truncated_bytes: u64,
    /// Time of one append, one in 1,024 sampled.
    pub append_ns: HistogramSnapshot,
    /// Time of one sync.
    pub flush_ns: HistogramSnapshot,
    /// Callers served by one sync.
    pub flush_group: HistogramSnapshot,
    /// Used bytes of sealed segments.
    pub segment_bytes: HistogramSnapshot,
    /// Whether a failed sync stopped the stream.
    pub poisoned: bool,
}

impl Metrics {
    pub(crate) fn fill(&self, snapshot: &mut MetricsSnapshot) {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        snapshot.flushes = get(&self.flushes);
        snapshot.flushed_bytes = get(&self.flushed_bytes);
        snapshot.flush_failures = get(&self.flush_failures);
        snapshot.rollovers = get(&self.rollovers);
        snapshot.segments_sealed = get(&self.segments_sealed);
        snapshot.segments_removed = get(&self.segments_removed);
        snapshot.segments_archived = get(&self.segments_archived);
        snapshot.blocked_admission = get(&self.blocked_admission);
        snapshot.blocked_rollover = get(&self.blocked_rollover);
        snapshot.blocked_flush = get(&self.blocked_flush);
        snapshot.blocked_hydration = get(&self.blocked_hydration);
        snapshot.corrupt_reads = get(&self.corrupt_reads);
        snapshot.retention_in_future = get(&self.retention_in_future) != 0;
        snapshot.recovery_ns = get(&self.recovery_ns);
        snapshot.recovery_truncated_bytes = get(&self.recovery_truncated_bytes);
        snapshot.append_ns = self.append_ns.snapshot();
        snapshot.flush_ns = self.flush_ns.snapshot();
        snapshot.flush_group = self.flush_group.snapshot();
        snapshot.segment_bytes = self.segment_bytes.snapshot();
    }
}

impl MetricsSnapshot {
    /// The figures in the Prometheus text format, labelled with the stream's name.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
    /// assert!(log.metrics().to_prometheus().contains("aof2_appended_records_total"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_prometheus(&self) -> String {
        let mut text = PrometheusText::of_stream(&self.stream);
        self.add_to(&mut text);
        text.finish()
    }

    pub(crate) fn add_to(&self, text: &mut PrometheusText) {
        text.counter("appended_records", "Records appended", self.appended_records);
        text.counter("durable_records", "Records made durable", self.durable_records);
        text.counter("appended_bytes", "Stream bytes appended", self.appended_bytes);
        text.counter("durable_bytes", "Stream bytes made durable", self.durable_bytes);
        text.gauge("segments", "Segments on disk", self.segments);
        text.gauge("open_maps", "Segments that are mapped", self.open_maps);
        text.gauge("open_files", "Compressed segments whose files are open", self.open_files);
        text.gauge("earliest_offset", "First logical offset that exists", self.earliest_offset);
        text.counter("flushes", "Syncs since open", self.flushes);
        text.counter("flushed_bytes", "Bytes made durable since open", self.flushed_bytes);
        text.counter("flush_failures", "Syncs that failed", self.flush_failures);
        text.counter("rollovers", "Changes of the active segment", self.rollovers);
        text.counter("segments_sealed", "Footers written", self.segments_sealed);
        text.counter("segments_removed", "Segments deleted by retention", self.segments_removed);
        text.counter("segments_archived", "Segments archived", self.segments_archived);
        let help = "Appends and reads refused for the moment";
        let mut would_block = text.family("would_block", Kind::Counter, help);
        for (kind, n) in [
            ("admission", self.blocked_admission),
            ("rollover", self.blocked_rollover),
            ("flush", self.blocked_flush),
            ("hydration", self.blocked_hydration),
        ] {
            would_block.sample("", &[("kind", kind)], n);
        }
        text.counter("corrupt_reads", "Reads that met damage", self.corrupt_reads);
        text.gauge(
            "retention_in_future",
            "1 while retention by age stops at a timestamp in the future",
            u64::from(self.retention_in_future),
        );
        text.gauge("recovery_seconds", "How long opening took", self.recovery_ns as f64 * 1e-9);
        text.gauge(
            "recovery_truncated_bytes",
            "Torn bytes removed by opening",
            self.recovery_truncated_bytes,
        );
        text.gauge("poisoned", "1 after a failed sync", u64::from(self.poisoned));
        text.counter(
            "manifest_failures",
            "Times the manifest could not be written and was let go",
            self.manifest_failures,
        );
        self.append_ns.add_to(text, "append_seconds", "Time of an append, sampled", 1e-9);
        self.flush_ns.add_to(text, "flush_seconds", "Time of a sync", 1e-9);
        self.flush_group.add_to(text, "flush_group_size", "Callers served by a sync", 1.0);
        self.segment_bytes.add_to(text, "segment_used_bytes", "Sealed segments", 1.0);
        if let Some(manifest) = &self.manifest {
            manifest.add_to(text);
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_bound_what_was_recorded() {
        let histogram = Histogram::default();
        for value in 1..=1000 {
            histogram.record(value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count, 1000);
        assert_eq!(snapshot.sum, 500_500);
        assert_eq!(snapshot.quantile(0.5), 512);
        assert_eq!((snapshot.quantile(1.0), snapshot.max), (1000, 1000));
        assert_eq!(HistogramSnapshot::default().quantile(0.5), 0);
    }

    /// `le` means less or equal: a value that is a bound was counted above it, and the
    /// largest value seemed twice as large.
    #[test]
    fn a_bucket_includes_its_bound() {
        for value in [0, 1, 2, 4, 1 << 20, (1 << 20) + 1, 1 << 38, (1 << 38) + 1, u64::MAX] {
            let histogram = Histogram::default();
            histogram.record(value);
            let snapshot = histogram.snapshot();
            assert_eq!((snapshot.quantile(0.5), snapshot.max), (value, value));
            let mut text = PrometheusText::of_stream("s");
            snapshot.add_to(&mut text, "h", "", 1.0);
            let mut last_bound = 0.0;
            for line in text.finish().lines().filter(|line| line.starts_with("aof2_h_bucket")) {
                let (labels, count) = line.rsplit_once(' ').expect("a sample");
                let bound = labels.split('"').nth(3).expect("le");
                let bound: f64 = bound.parse().expect("a number, +Inf included");
                assert_eq!(count == "1", value as f64 <= bound, "{value}: {line}");
                last_bound = bound;
            }
            assert!(last_bound.is_infinite());
        }
    }

    /// Whoever collects the figures knows them by their names, so that every byte counts.
    #[test]
    fn the_text_is_the_one_that_was_promised() {
        assert_eq!(snapshot().to_prometheus(), include_str!("metrics.prom"));
    }

    /// One in which no two figures are the same.
    fn snapshot() -> MetricsSnapshot {
        let metrics = Metrics::default();
        let counters = [
            &metrics.flushes,
            &metrics.flushed_bytes,
            &metrics.flush_failures,
            &metrics.rollovers,
            &metrics.segments_sealed,
            &metrics.segments_removed,
            &metrics.segments_archived,
            &metrics.blocked_admission,
            &metrics.blocked_rollover,
            &metrics.blocked_flush,
            &metrics.blocked_hydration,
            &metrics.corrupt_reads,
            &metrics.retention_in_future,
            &metrics.recovery_ns,
            &metrics.recovery_truncated_bytes,
        ];
        counters.iter().zip(1..).for_each(|(counter, n)| count(counter, n));
        for (histogram, values) in [
            (&metrics.append_ns, &[3, 300][..]),
            (&metrics.flush_ns, &[1_000_000, 2_500_000_000, 1 << 40]),
            (&metrics.flush_group, &[0, 1, 7]),
        ] {
            values.iter().for_each(|value| histogram.record(*value));
        }
        let manifest = ManifestMetrics {
            records: 21,
            replay_ns: 250_000_000,
            snapshot_age_ms: Some(2_500),
            poisoned: true,
            ..ManifestMetrics::default()
        };
        let mut snapshot = MetricsSnapshot {
            stream: "a\"b\\c\nd".into(),
            appended_records: 31,
            durable_records: 32,
            appended_bytes: 33,
            durable_bytes: 34,
            segments: 35,
            open_maps: 36,
            open_files: 37,
            earliest_offset: 38,
            manifest: Some(manifest),
            manifest_failures: 39,
            poisoned: true,
            ..MetricsSnapshot::default()
        };
        metrics.fill(&mut snapshot);
        snapshot
    }
}
