//! What the tiers of a stream hold and did.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::archive::uploads_pending;
use super::stream::StreamTiers;
use crate::io::object::{BreakerState, Capabilities, ObjectMetrics, ObjectOp, OpMetrics};
use crate::log::Stream;

/// Counters of one stream.
#[derive(Debug, Default)]
pub(super) struct TierCounters {
    pub(super) jobs: AtomicU64,
    pub(super) evictions: AtomicU64,
    pub(super) failures: AtomicU64,
    pub(super) cold_failures: AtomicU64,
    pub(super) cold_missing: AtomicU64,
    pub(super) warm_evictions: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) scrubbed_bytes: AtomicU64,
    pub(super) scrubbed_segments: AtomicU64,
    pub(super) damage_found: AtomicU64,
    pub(super) healed: AtomicU64,
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
            cold_missing: load(&self.cold_missing),
            scrubbed_bytes: load(&self.scrubbed_bytes),
            scrubbed_segments: load(&self.scrubbed_segments),
            damage_found: load(&self.damage_found),
            healed: load(&self.healed),
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
            hot_bytes: stream.hot_usage().total(),
            hot_bytes_max: tiers.coordinator.config().hot_bytes,
            stream_hot_bytes_max: tiers.hot_bytes,
            warm_bytes_max: tiers.coordinator.config().warm_bytes,
            cold: Self::cold_of(tiers, stream),
            pinned_segments: tiers.pinned.lock().len() as u64,
            activations_pending: tiers.activations.lock().len() as u64,
            needs_repair_segments: tiers.scrub.needs_repair(stream),
            last_scrub_ms: tiers.scrub.completed_ms(),
            metrics: tiers.counters.snapshot(),
            ..Self::default()
        };
        for entry in stream.table.snapshot() {
            match entry.is_hot() {
                true => status.hot_segments += 1,
                false => status.evicted_segments += 1,
            }
            let copies = entry.away_copies();
            if let Some(warm) = copies.warm {
                status.warm_segments += 1;
                status.warm_bytes += warm.index().artifact_len();
            }
            if let (Some(held), Some(cold)) = (copies.cold, &mut status.cold) {
                cold.segments += 1;
                cold.bytes += held.index().artifact_len();
            }
        }
        status
    }

    fn cold_of(tiers: &StreamTiers, stream: &Stream) -> Option<ColdStatus> {
        let cold = tiers.coordinator.cold()?;
        Some(ColdStatus {
            url: cold.url().to_string(),
            archived: stream.archived.count(),
            uploads_pending: uploads_pending(stream),
            deletes_pending: stream
                .look_at_manifest(|index| index.pending_deletes().count() as u64)
                .unwrap_or(0),
            capabilities: cold.capabilities(),
            requests: cold.metrics(),
            error: tiers.cold_error(),
            ..ColdStatus::default()
        })
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
        self.add_scrub(&mut line);
        if let Some(limit) = self.warm_bytes_max {
            line("gauge", "warm_bytes_max", "Limit of all streams.", limit as f64);
        }
        if let Some(cold) = &self.cold {
            cold.add_prometheus(m, &mut line);
        }
        if let Some(cold) = &self.cold {
            cold.add_requests(&label, &mut text);
        }
        text
    }
}

impl TierStatus {
    fn add_scrub(&self, line: &mut impl FnMut(&str, &str, &str, f64)) {
        let m = &self.metrics;
        line("counter", "scrubbed_bytes_total", "Bytes checked.", m.scrubbed_bytes as f64);
        line("counter", "scrubbed_segments_total", "Segments checked.", m.scrubbed_segments as f64);
        line("counter", "damage_found_total", "Damaged copies found.", m.damage_found as f64);
        line("counter", "healed_total", "Damaged copies replaced.", m.healed as f64);
        line(
            "gauge",
            "needs_repair_segments",
            "Segments with damage that was not healed.",
            self.needs_repair_segments as f64,
        );
        if let Some(ms) = self.last_scrub_ms {
            let seconds = ms as f64 / 1e3;
            line("gauge", "last_scrub_timestamp_seconds", "When everything was checked.", seconds);
        }
    }
}

/// One figure of a kind of request.
type Figure = fn(&OpMetrics) -> f64;

impl ColdStatus {
    fn add_prometheus(&self, m: &TierMetrics, line: &mut impl FnMut(&str, &str, &str, f64)) {
        line("gauge", "cold_segments", "Segments in the object store.", self.segments as f64);
        line("gauge", "cold_bytes", "Their bytes there.", self.bytes as f64);
        line("gauge", "archived_offset", "Records below it are archived.", self.archived as f64);
        line("gauge", "uploads_pending", "Sealed, not archived.", self.uploads_pending as f64);
        line("gauge", "deletes_pending", "Objects to be deleted.", self.deletes_pending as f64);
        line(
            "counter",
            "warm_evictions_total",
            "Compressed files removed.",
            m.warm_evictions as f64,
        );
        line("counter", "uploads_total", "Segments archived.", m.uploads as f64);
        line("counter", "uploaded_bytes_total", "Their bytes there.", m.uploaded_bytes as f64);
        line("counter", "upload_seconds_total", "Time spent on it.", m.upload_seconds);
        line("counter", "deletes_total", "Objects deleted.", m.deletes as f64);
        line("counter", "cold_failures_total", "Work that failed.", m.cold_failures as f64);
        line("counter", "cold_missing_total", "Segments not found there.", m.cold_missing as f64);
        let requests = &self.requests;
        line("counter", "object_bytes_in_total", "Bytes received.", requests.bytes_in as f64);
        line("counter", "object_bytes_out_total", "Bytes sent.", requests.bytes_out as f64);
        line(
            "counter",
            "object_uploads_recognised_total",
            "Uploads that an earlier try had done.",
            requests.uploads_recognised as f64,
        );
        line("gauge", "object_in_flight", "Requests in flight.", requests.in_flight as f64);
        let is_open = requests.breaker != BreakerState::Closed;
        line("gauge", "object_breaker_open", "Requests are held back.", f64::from(is_open));
        line("gauge", "object_requests_per_gb", "Requests per GB moved.", requests.per_gb());
    }

    /// Requests by what they asked for.
    fn add_requests(&self, label: &str, text: &mut String) {
        let kinds: [(&str, &str, Figure); 4] = [
            ("object_requests_total", "Requests sent.", |op| op.requests as f64),
            ("object_retries_total", "Those that were not the first try.", |op| op.retries as f64),
            ("object_failures_total", "Requests that failed.", |op| op.failures as f64),
            ("object_seconds_total", "Time spent waiting.", |op| op.elapsed_ns as f64 / 1e9),
        ];
        for (name, help, value) in kinds {
            let _ = writeln!(text, "# HELP aof2_tier_{name} {help}");
            let _ = writeln!(text, "# TYPE aof2_tier_{name} counter");
            for op in ObjectOp::ALL {
                let (value, op) = (value(&self.requests.op(op)), op.name());
                let _ =
                    writeln!(text, "aof2_tier_{name}{{stream=\"{label}\",op=\"{op}\"}} {value}");
            }
        }
    }
}
