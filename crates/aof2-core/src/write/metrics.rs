//! What a stream counts. Plain atomics: a scrape costs the writer nothing, and
//! what the watermarks already say (records, bytes) is not counted twice.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::exposition::escaped;
use crate::manifest::ManifestMetrics;

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
        let mut text = PrometheusText::new(&self.stream);
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
        text.family("would_block", "counter", "Appends and reads refused for the moment");
        for (kind, n) in [
            ("admission", self.blocked_admission),
            ("rollover", self.blocked_rollover),
            ("flush", self.blocked_flush),
            ("hydration", self.blocked_hydration),
        ] {
            text.sample("would_block_total", &[("kind", kind)], &n.to_string());
        }
        text.counter("corrupt_reads", "Reads that met damage", self.corrupt_reads);
        text.gauge(
            "retention_in_future",
            "1 while retention by age stops at a timestamp in the future",
            u64::from(self.retention_in_future),
        );
        text.seconds("recovery_seconds", "How long opening took", self.recovery_ns);
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
        text.histogram("append_seconds", "Time of an append, sampled", &self.append_ns, 1e-9);
        text.histogram("flush_seconds", "Time of a sync", &self.flush_ns, 1e-9);
        text.histogram("flush_group_size", "Callers served by a sync", &self.flush_group, 1.0);
        text.histogram("segment_used_bytes", "Sealed segments", &self.segment_bytes, 1.0);
        if let Some(manifest) = &self.manifest {
            text.out.push_str(&manifest.to_prometheus(&self.stream));
        }
        text.out
    }
}

/// Text in the making: figures of one stream.
pub(crate) struct PrometheusText {
    pub(crate) out: String,
    stream: String,
}

impl PrometheusText {
    pub(crate) fn new(stream: &str) -> Self {
        Self { out: String::new(), stream: escaped(stream) }
    }

    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let suffix = if kind == "counter" { "_total" } else { "" };
        let _ = writeln!(self.out, "# HELP aof2_{name}{suffix} {help}");
        let _ = writeln!(self.out, "# TYPE aof2_{name}{suffix} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        let _ = write!(self.out, "aof2_{name}{{stream=\"{}\"", self.stream);
        for (key, label) in labels {
            let _ = write!(self.out, ",{key}=\"{label}\"");
        }
        let _ = writeln!(self.out, "}} {value}");
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(&format!("{name}_total"), &[], &value.to_string());
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], &value.to_string());
    }

    fn seconds(&mut self, name: &str, help: &str, ns: u64) {
        self.family(name, "gauge", help);
        self.sample(name, &[], &format!("{}", ns as f64 * 1e-9));
    }

    fn histogram(&mut self, name: &str, help: &str, h: &HistogramSnapshot, unit: f64) {
        self.family(name, "histogram", help);
        let mut seen = 0;
        let last = h.counts.iter().rposition(|&c| c > 0).map_or(0, |i| i + 1);
        // The last bucket has no bound but infinity.
        for (i, count) in h.counts.iter().take(last.min(BUCKETS - 1)).enumerate() {
            seen += count;
            let bound = format!("{}", (1u64 << i) as f64 * unit);
            self.sample(&format!("{name}_bucket"), &[("le", &bound)], &seen.to_string());
        }
        self.sample(&format!("{name}_bucket"), &[("le", "+Inf")], &h.count.to_string());
        self.sample(&format!("{name}_sum"), &[], &format!("{}", h.sum as f64 * unit));
        self.sample(&format!("{name}_count"), &[], &h.count.to_string());
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
            let mut text = PrometheusText::new("s");
            text.histogram("h", "", &snapshot, 1.0);
            let mut last_bound = 0.0;
            for line in text.out.lines().filter(|line| line.starts_with("aof2_h_bucket")) {
                let (labels, count) = line.rsplit_once(' ').expect("a sample");
                let bound = labels.split('"').nth(3).expect("le");
                let bound: f64 = bound.parse().expect("a number, +Inf included");
                assert_eq!(count == "1", value as f64 <= bound, "{value}: {line}");
                last_bound = bound;
            }
            assert!(last_bound.is_infinite());
        }
    }

    #[test]
    fn prometheus_text_escapes_names_and_accumulates_buckets() {
        let metrics = Metrics::default();
        metrics.flush_ns.record(3);
        metrics.flush_ns.record(300);
        let mut snapshot = MetricsSnapshot { stream: "a\"b".into(), ..Default::default() };
        metrics.fill(&mut snapshot);
        let text = snapshot.to_prometheus();
        assert!(text.contains(r#"aof2_flushes_total{stream="a\"b"} 0"#), "{text}");
        assert!(text.contains(r#"aof2_flush_seconds_bucket{stream="a\"b",le="+Inf"} 2"#), "{text}");
        assert!(text.contains("# TYPE aof2_flush_seconds histogram"));
        assert!(text.lines().all(|l| l.starts_with('#') || l.starts_with("aof2_")));
    }
}
