//! What was asked of the store, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::error::ObjectOp;

/// Figures of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpMetrics {
    /// Requests sent, retries included.
    pub requests: u64,
    /// Those of them that were not the first try.
    pub retries: u64,
    /// Requests that failed, whether or not a later try succeeded. An object that is
    /// not there, or there already, is an answer and no failure.
    pub failures: u64,
    /// Time spent waiting for answers, in nanoseconds.
    pub elapsed_ns: u64,
}

/// Figures of a store since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectMetrics {
    pub(super) ops: [OpMetrics; ObjectOp::ALL.len()],
    /// Bytes of objects received.
    pub bytes_in: u64,
    /// Bytes of objects sent, those of failed tries included.
    pub bytes_out: u64,
    /// Uploads that turned out to have been carried out by an earlier try.
    pub uploads_recognised: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Since when the store does not answer, milliseconds since the epoch; `None` while
    /// it does.
    pub down_since_ms: Option<u64>,
    /// How often it stopped answering.
    pub outages: u64,
    /// How often it was asked whether it is there.
    pub probes: u64,
}

impl ObjectMetrics {
    /// Figures of one kind of request.
    pub fn op(&self, op: ObjectOp) -> OpMetrics {
        self.ops[op.index()]
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.ops.iter().map(|op| op.requests).sum()
    }

    /// Requests per gigabyte that was sent or received; 0 before anything was.
    pub fn per_gb(&self) -> f64 {
        let bytes = self.bytes_in + self.bytes_out;
        if bytes == 0 { 0.0 } else { self.requests() as f64 / (bytes as f64 / 1e9) }
    }
}

#[derive(Debug, Default)]
struct OpCounters {
    requests: AtomicU64,
    retries: AtomicU64,
    failures: AtomicU64,
    elapsed_ns: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    ops: [OpCounters; ObjectOp::ALL.len()],
    pub bytes_in: AtomicU64,
    pub bytes_out: AtomicU64,
    pub uploads_recognised: AtomicU64,
}

impl Counters {
    pub fn request(&self, op: ObjectOp, is_retry: bool, sent_len: u64) {
        let counters = &self.ops[op.index()];
        counters.requests.fetch_add(1, Relaxed);
        counters.retries.fetch_add(u64::from(is_retry), Relaxed);
        self.bytes_out.fetch_add(sent_len, Relaxed);
    }

    pub fn answer(&self, op: ObjectOp, elapsed: Duration, is_failure: bool) {
        let counters = &self.ops[op.index()];
        counters.failures.fetch_add(u64::from(is_failure), Relaxed);
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        counters.elapsed_ns.fetch_add(elapsed_ns, Relaxed);
    }

    pub fn snapshot(&self) -> ObjectMetrics {
        let ops = std::array::from_fn(|i| OpMetrics {
            requests: self.ops[i].requests.load(Relaxed),
            retries: self.ops[i].retries.load(Relaxed),
            failures: self.ops[i].failures.load(Relaxed),
            elapsed_ns: self.ops[i].elapsed_ns.load(Relaxed),
        });
        ObjectMetrics {
            ops,
            bytes_in: self.bytes_in.load(Relaxed),
            bytes_out: self.bytes_out.load(Relaxed),
            uploads_recognised: self.uploads_recognised.load(Relaxed),
            ..ObjectMetrics::default()
        }
    }
}
