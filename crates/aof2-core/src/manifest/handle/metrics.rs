//! What a manifest counts. Plain atomics: a scrape costs the writer nothing.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::prometheus::PrometheusText;

/// Live counters of a manifest.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) chunks_active: AtomicU64,
    pub(super) chunks_sealed: AtomicU64,
    pub(super) chunks_removed: AtomicU64,
    pub(super) records: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) replay_ns: AtomicU64,
    pub(super) replay_records: AtomicU64,
    pub(super) trimmed_bytes: AtomicU64,
    pub(super) crc_errors: AtomicU64,
    pub(super) uploads: AtomicU64,
    pub(super) upload_failures: AtomicU64,
    pub(super) upload_retries: AtomicU64,
    pub(super) snapshots: AtomicU64,
    pub(super) snapshot_failures: AtomicU64,
    /// When the newest snapshot was taken, 0 for never.
    pub(super) snapshot_at_ms: AtomicU64,
    pub(super) shadow_divergence: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

pub(super) fn set(gauge: &AtomicU64, to: u64) {
    gauge.store(to, Ordering::Relaxed);
}

/// All figures of a manifest at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestMetrics {
    /// Chunk files on disk, the one being written included.
    pub chunks_active: u64,
    /// Chunks sealed since open.
    pub chunks_sealed: u64,
    /// Chunks removed by retention since open.
    pub chunks_removed: u64,
    /// Records since open.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits since open that wrote something.
    pub commits: u64,
    /// Records that are committed, all together.
    pub committed_records: u64,
    /// How long replay took at open.
    pub replay_ns: u64,
    /// Records that replay read.
    pub replay_records: u64,
    /// Bytes of an uncommitted tail that opening trimmed.
    pub trimmed_bytes: u64,
    /// Damage met since open.
    pub crc_error_count: u64,
    /// Chunks uploaded since open.
    pub uploads: u64,
    /// Tries that failed.
    pub upload_failures: u64,
    /// Tries after a failed one.
    pub upload_retries: u64,
    /// Snapshots taken since open.
    pub snapshots: u64,
    /// Snapshots that could not be written.
    pub snapshot_failures: u64,
    /// Age of the newest snapshot; `None` without one.
    pub snapshot_age_ms: Option<u64>,
    /// Differences between the manifest and a scan, as the log last found them.
    pub shadow_divergence: u64,
    /// Whether a failed write or sync stopped the manifest.
    pub poisoned: bool,
}

impl Metrics {
    pub(super) fn snapshot(&self, now_ms: u64) -> ManifestMetrics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let snapshot_at_ms = get(&self.snapshot_at_ms);
        ManifestMetrics {
            chunks_active: get(&self.chunks_active),
            chunks_sealed: get(&self.chunks_sealed),
            chunks_removed: get(&self.chunks_removed),
            records: get(&self.records),
            bytes: get(&self.bytes),
            commits: get(&self.commits),
            replay_ns: get(&self.replay_ns),
            replay_records: get(&self.replay_records),
            trimmed_bytes: get(&self.trimmed_bytes),
            crc_error_count: get(&self.crc_errors),
            uploads: get(&self.uploads),
            upload_failures: get(&self.upload_failures),
            upload_retries: get(&self.upload_retries),
            snapshots: get(&self.snapshots),
            snapshot_failures: get(&self.snapshot_failures),
            snapshot_age_ms: (snapshot_at_ms > 0).then(|| now_ms.saturating_sub(snapshot_at_ms)),
            shadow_divergence: get(&self.shadow_divergence),
            ..ManifestMetrics::default()
        }
    }
}

impl ManifestMetrics {
    /// The figures in the Prometheus text format, labelled with the stream's name.
    pub fn to_prometheus(&self, stream: &str) -> String {
        let mut text = PrometheusText::of_stream(stream);
        self.add_to(&mut text);
        text.finish()
    }

    pub(crate) fn add_to(&self, text: &mut PrometheusText) {
        text.gauge("manifest_chunks_active", "Chunk files on disk", self.chunks_active);
        text.counter("manifest_chunks_sealed", "Chunks sealed", self.chunks_sealed);
        text.counter("manifest_chunks_removed", "Chunks removed by retention", self.chunks_removed);
        text.counter("manifest_records", "Records written", self.records);
        text.counter("manifest_bytes", "Bytes of records written", self.bytes);
        text.counter("manifest_commits", "Commits that wrote something", self.commits);
        text.gauge(
            "manifest_committed_records",
            "Records that are committed",
            self.committed_records,
        );
        let seconds = self.replay_ns as f64 * 1e-9;
        text.gauge("manifest_replay_seconds", "How long replay took", seconds);
        text.gauge("manifest_replay_records", "Records that replay read", self.replay_records);
        text.gauge(
            "manifest_trimmed_bytes",
            "Uncommitted bytes that opening trimmed",
            self.trimmed_bytes,
        );
        text.counter("manifest_crc_error_count", "Damage met", self.crc_error_count);
        text.counter("manifest_uploads", "Chunks uploaded", self.uploads);
        text.counter("manifest_upload_failures", "Uploads that failed", self.upload_failures);
        text.counter("manifest_upload_retries", "Uploads tried again", self.upload_retries);
        text.counter("manifest_snapshots", "Snapshots taken", self.snapshots);
        text.counter("manifest_snapshot_failures", "Snapshots that failed", self.snapshot_failures);
        if let Some(age_ms) = self.snapshot_age_ms {
            let age = age_ms as f64 * 1e-3;
            text.gauge("manifest_snapshot_age_seconds", "Age of the newest snapshot", age);
        }
        text.gauge("manifest_shadow_divergence", "Differences from a scan", self.shadow_divergence);
        text.gauge("manifest_poisoned", "1 after a failed write or sync", u64::from(self.poisoned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_under_the_manifests_name() {
        let metrics = Metrics::default();
        count(&metrics.records, 3);
        set(&metrics.snapshot_at_ms, 1_000);
        set(&metrics.shadow_divergence, 2);
        set(&metrics.replay_ns, 250_000_000);
        let text = metrics.snapshot(3_500).to_prometheus("a\"b");
        for line in [
            r#"aof2_manifest_records_total{stream="a\"b"} 3"#,
            r#"aof2_manifest_snapshot_age_seconds{stream="a\"b"} 2.5"#,
            r#"aof2_manifest_shadow_divergence{stream="a\"b"} 2"#,
            r#"aof2_manifest_replay_seconds{stream="a\"b"} 0.25"#,
            r#"aof2_manifest_chunks_active{stream="a\"b"} 0"#,
            r#"aof2_manifest_crc_error_count_total{stream="a\"b"} 0"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(!Metrics::default().snapshot(0).to_prometheus("s").contains("snapshot_age"));
        assert!(text.lines().all(|l| l.starts_with("# ") || l.starts_with("aof2_manifest_")));
    }
}
