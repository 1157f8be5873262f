//! aof2 itself. Built with `--features ours`.
//!
//! What each method has to do is said in `engine.rs`; what is particular to
//! aof2 is said here.

use std::path::Path;
use std::time::Duration;

use crate::engine::{Engine, Kind, Log, Plan, Result, Support, Tally};
use crate::measure::Histogram;
use crate::payload::Payloads;

const NOT_WIRED: &str = "aof2-core is not connected to the benchmark yet";

pub struct Aof2;

impl Engine for Aof2 {
    fn name(&self) -> &'static str {
        "ours"
    }

    fn about(&self) -> &'static str {
        "default settings; CRC-64/NVME of each record; durable is fdatasync, shared by the \
         callers that wait together"
    }

    fn support(&self, _kind: Kind) -> Support {
        Support::Full
    }

    /// Fixes the segment size to `plan.segment_bytes`, and returns only once
    /// the active segment and the spares are faulted in.
    fn create(&self, _dir: &Path, _plan: &Plan) -> Result<Box<dyn Log>> {
        Err(NOT_WIRED.into())
    }

    /// Returns when an append would be accepted. Waiting for spares is not part
    /// of opening.
    fn open(&self, _dir: &Path, _plan: &Plan) -> Result<Box<dyn Log>> {
        Err(NOT_WIRED.into())
    }
}

/// Holds the log, and for `Kind::RandomRead` the id of each record.
#[allow(dead_code)]
struct Aof2Log;

impl Log for Aof2Log {
    fn append(
        &mut self,
        _payloads: &Payloads,
        _count: u64,
        _latency: Option<&mut Histogram>,
    ) -> Result<()> {
        Err(NOT_WIRED.into())
    }

    fn append_durable(
        &self,
        _payloads: &Payloads,
        _caller_count: usize,
        _count_each: u64,
    ) -> Result<Duration> {
        Err(NOT_WIRED.into())
    }

    fn fill_segments(&mut self, _payloads: &Payloads, _segment_count: u64) -> Result<()> {
        Err(NOT_WIRED.into())
    }

    fn scan(&mut self) -> Result<Tally> {
        Err(NOT_WIRED.into())
    }

    fn random_read(&self, _ordinals: &[u32]) -> Result<Tally> {
        Err(NOT_WIRED.into())
    }

    fn sync(&mut self) -> Result<()> {
        Err(NOT_WIRED.into())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Err(NOT_WIRED.into())
    }
}
