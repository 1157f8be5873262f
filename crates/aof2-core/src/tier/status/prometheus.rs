//! The figures of the tiers as Prometheus text.

use super::{ColdStatus, TierMetrics, TierStatus};
use crate::object::{ObjectOp, OpMetrics};
use crate::prometheus::{Family, Kind, PrometheusText};

/// Name, help and value. A name that ends in `_total` is that of a counter, any other that
/// of a gauge.
type Figure = (&'static str, &'static str, f64);

impl TierStatus {
    /// Prometheus text, every line labelled with the stream.
    pub fn to_prometheus(&self, stream: &str) -> String {
        let mut text = PrometheusText::of_stream(stream);
        self.add_to(&mut text);
        text.finish()
    }

    pub(crate) fn add_to(&self, text: &mut PrometheusText) {
        add(text, self.figures());
        let limit = self.warm_bytes_max;
        add(text, limit.map(|max| ("warm_bytes_max", "Limit of all streams.", max as f64)));
        if let Some(cold) = &self.cold {
            add(text, cold.figures(&self.metrics));
            add(text, cold.down_since());
            cold.add_requests(text);
        }
    }

    fn figures(&self) -> impl Iterator<Item = Figure> {
        let m = &self.metrics;
        let last_scrub = self.last_scrub_ms.map(|ms| {
            ("last_scrub_timestamp_seconds", "When everything was checked.", ms as f64 / 1e3)
        });
        let figures = [
            ("hot_segments", "Segments in the hot tier.", self.hot_segments as f64),
            ("hot_bytes", "Bytes in the hot tier.", self.hot_bytes as f64),
            ("hot_bytes_max", "Limit of all streams.", self.hot_bytes_max as f64),
            ("warm_segments", "Compressed segments.", self.warm_segments as f64),
            ("warm_bytes", "Bytes of compressed segments.", self.warm_bytes as f64),
            ("evicted_segments", "Segments not in the hot tier.", self.evicted_segments as f64),
            ("pinned_segments", "Segments that stay hot.", self.pinned_segments as f64),
            ("activations_pending", "Segments asked for.", self.activations_pending as f64),
            ("evictions_total", "Segments that left the hot tier.", m.evictions as f64),
            ("failures_total", "Moves that failed.", m.failures as f64),
            ("compressions_total", "Segments compressed.", m.compressions as f64),
            ("compressed_raw_bytes_total", "Their bytes before.", m.compressed_raw_bytes as f64),
            ("compressed_bytes_total", "Their bytes after.", m.compressed_bytes as f64),
            ("compression_seconds_total", "Time spent compressing.", m.compression_seconds),
            ("hydrations_total", "Segments that came back.", m.hydrations as f64),
            ("hydration_seconds_total", "Time spent on it.", m.hydration_seconds),
            ("scrubbed_bytes_total", "Bytes checked.", m.scrubbed_bytes as f64),
            ("scrubbed_segments_total", "Segments checked.", m.scrubbed_segments as f64),
            ("damage_found_total", "Damaged copies found.", m.damage_found as f64),
            ("healed_total", "Damaged copies replaced.", m.healed as f64),
            (
                "needs_repair_segments",
                "Segments with damage that was not healed.",
                self.needs_repair_segments as f64,
            ),
        ];
        figures.into_iter().chain(last_scrub)
    }
}

impl ColdStatus {
    fn figures(&self, m: &TierMetrics) -> [Figure; 20] {
        let sent = &self.requests;
        let is_down = f64::from(sent.down_since_ms.is_some());
        [
            ("cold_segments", "Segments in the object store.", self.segments as f64),
            ("cold_bytes", "Their bytes there.", self.bytes as f64),
            ("archived_offset", "Records below it are archived.", self.archived as f64),
            ("uploads_pending", "Sealed, not archived.", self.uploads_pending as f64),
            ("deletes_pending", "Objects to be deleted.", self.deletes_pending as f64),
            ("warm_evictions_total", "Compressed files removed.", m.warm_evictions as f64),
            ("uploads_total", "Segments archived.", m.uploads as f64),
            ("uploaded_bytes_total", "Their bytes there.", m.uploaded_bytes as f64),
            ("upload_seconds_total", "Time spent on it.", m.upload_seconds),
            ("deletes_total", "Objects deleted.", m.deletes as f64),
            ("cold_failures_total", "Work that failed.", m.cold_failures as f64),
            ("cold_missing_total", "Segments not found there.", m.cold_missing as f64),
            ("object_bytes_in_total", "Bytes received.", sent.bytes_in as f64),
            ("object_bytes_out_total", "Bytes sent.", sent.bytes_out as f64),
            (
                "object_uploads_recognised_total",
                "Uploads that an earlier try had done.",
                sent.uploads_recognised as f64,
            ),
            ("object_in_flight", "Requests in flight.", sent.in_flight as f64),
            ("object_breaker_open", "The store does not answer.", is_down),
            ("object_outages_total", "How often it stopped answering.", sent.outages as f64),
            ("object_probes_total", "Questions whether it is back.", sent.probes as f64),
            ("object_requests_per_gb", "Requests per GB moved.", sent.per_gb()),
        ]
    }

    /// Only while there is such a time.
    fn down_since(&self) -> Option<Figure> {
        let since_ms = self.requests.down_since_ms?;
        let help = "When it stopped answering.";
        Some(("object_down_since_timestamp_seconds", help, since_ms as f64 / 1e3))
    }

    /// Requests by what they asked for.
    fn add_requests(&self, text: &mut PrometheusText) {
        type Kind = (&'static str, &'static str, fn(&OpMetrics) -> f64);
        let kinds: [Kind; 4] = [
            ("object_requests_total", "Requests sent.", |op| op.requests as f64),
            ("object_retries_total", "Those that were not the first try.", |op| op.retries as f64),
            ("object_failures_total", "Requests that failed.", |op| op.failures as f64),
            ("object_seconds_total", "Time spent waiting.", |op| op.elapsed_ns as f64 / 1e9),
        ];
        for (name, help, value) in kinds {
            let mut family = family(text, name, help);
            for op in ObjectOp::ALL {
                family.sample("", &[("op", op.name())], value(&self.requests.op(op)));
            }
        }
    }
}

fn add(text: &mut PrometheusText, figures: impl IntoIterator<Item = Figure>) {
    for (name, help, value) in figures {
        family(text, name, help).sample("", &[], value);
    }
}

fn family<'a>(text: &'a mut PrometheusText, name: &str, help: &str) -> Family<'a> {
    let name = format!("tier_{name}");
    match name.strip_suffix("_total") {
        Some(counter) => text.family(counter, Kind::Counter, help),
        None => text.family(&name, Kind::Gauge, help),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ObjectMetrics;

    /// Whoever collects the figures knows them by their names, so that every byte counts.
    #[test]
    fn the_text_is_the_one_that_was_promised() {
        assert_eq!(status().to_prometheus("a\"b"), include_str!("golden.prom"));
        // What there is none of is not told.
        let text = TierStatus::default().to_prometheus("s\\\n");
        assert_eq!(text.lines().count(), 63);
        assert!(text.contains("\naof2_tier_hot_bytes{stream=\"s\\\\\\n\"} 0\n"), "{text}");
        for name in ["warm_bytes_max", "last_scrub", "cold_", "object_", "upload"] {
            assert!(!text.contains(&format!("aof2_tier_{name}")), "{name}");
        }
    }

    /// One in which no two figures are the same.
    fn status() -> TierStatus {
        let metrics = TierMetrics {
            evictions: 21,
            failures: 22,
            compressions: 23,
            compressed_raw_bytes: 24,
            compressed_bytes: 25,
            compression_seconds: 26.5,
            hydrations: 27,
            hydration_seconds: 28.25,
            warm_evictions: 29,
            uploads: 30,
            uploaded_bytes: 31,
            upload_seconds: 32.125,
            deletes: 33,
            cold_failures: 34,
            cold_missing: 35,
            scrubbed_bytes: 36,
            scrubbed_segments: 37,
            damage_found: 38,
            healed: 39,
        };
        let mut requests = ObjectMetrics::default();
        requests.bytes_in = 41;
        requests.bytes_out = 42;
        requests.uploads_recognised = 43;
        requests.in_flight = 44;
        requests.down_since_ms = Some(45_500);
        requests.outages = 46;
        requests.probes = 47;
        let cold = ColdStatus {
            segments: 51,
            bytes: 52,
            archived: 53,
            uploads_pending: 54,
            deletes_pending: 55,
            requests,
            ..ColdStatus::default()
        };
        TierStatus {
            hot_segments: 1,
            hot_bytes: 2,
            hot_bytes_max: 3,
            stream_hot_bytes_max: Some(4),
            warm_segments: 5,
            warm_bytes: 6,
            warm_bytes_max: Some(7),
            cold: Some(cold),
            evicted_segments: 8,
            pinned_segments: 9,
            activations_pending: 10,
            needs_repair_segments: 11,
            last_scrub_ms: Some(12_345),
            metrics,
        }
    }
}
