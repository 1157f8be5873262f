//! Timestamps for records: exact to a fraction of a millisecond, never going
//! backwards, and cheaper than asking the kernel every time.

use std::sync::Arc;

use crate::format::SegmentFormat;
use crate::io::Clock;

/// How much of a millisecond may pass before the clock is read again.
const REFRESH_FRACTION: u64 = 8;
/// Time needed to learn how fast the ticks run.
const CALIBRATION_NS: u64 = 5_000_000;

/// Why a record cannot be given this timestamp, if that is so.
pub fn timestamp_refusal(format: SegmentFormat, timestamp_ms: u64) -> Option<String> {
    let max = format.timestamp_ms_max();
    if timestamp_ms <= max {
        return None;
    }
    let last = match format {
        SegmentFormat::Full => "9999-12-31T23:59:59.999Z",
        SegmentFormat::Compact => "2554-07-21T23:34:33.709Z",
    };
    let unit = if timestamp_ms / 1_000 <= max { "microseconds" } else { "nanoseconds" };
    Some(format!(
        "the timestamp {timestamp_ms} is past {max}, which is {last}; timestamps count \
         milliseconds since 1970, did you pass {unit}?"
    ))
}

/// Gives timestamps; lives under the append lock.
#[derive(Debug)]
pub(crate) struct TimeSource {
    clock: Arc<dyn Clock>,
    last_ms: u64,
    last_ticks: u64,
    /// Ticks after which `last_ms` is stale; 0 until the tick rate is known.
    fresh_ticks: u64,
    origin: (u64, u64),
}

impl TimeSource {
    pub(crate) fn new(clock: Arc<dyn Clock>, not_before_ms: u64) -> Self {
        let origin = (clock.ticks().unwrap_or(0), clock.now_ns());
        Self { clock, last_ms: not_before_ms, last_ticks: 0, fresh_ticks: 0, origin }
    }

    /// Now, in milliseconds; at least as large as every earlier answer.
    #[inline]
    pub(crate) fn now_ms(&mut self) -> u64 {
        if self.fresh_ticks > 0 {
            let ticks = self.clock.ticks().unwrap_or(0);
            // A counter that jumps or runs backwards only means an extra look at
            // the clock.
            if ticks.wrapping_sub(self.last_ticks) < self.fresh_ticks {
                return self.last_ms;
            }
        }
        self.read_clock()
    }

    #[cold]
    fn read_clock(&mut self) -> u64 {
        let now_ns = self.clock.now_ns();
        if let Some(ticks) = self.clock.ticks() {
            let (ticks_0, ns_0) = self.origin;
            let elapsed_ns = now_ns.saturating_sub(ns_0);
            if elapsed_ns >= CALIBRATION_NS {
                let rate =
                    u128::from(ticks.wrapping_sub(ticks_0)) * 1_000_000 / u128::from(elapsed_ns);
                // A rate beyond any real counter means the wall clock was set.
                self.fresh_ticks =
                    if rate < 100_000_000 { rate as u64 / REFRESH_FRACTION } else { 0 };
            }
            self.last_ticks = ticks;
        }
        self.last_ms = self.last_ms.max(now_ns / 1_000_000);
        self.last_ms
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug, Default)]
    struct Script {
        now_ns: AtomicU64,
    }

    impl Clock for Script {
        fn now_ns(&self) -> u64 {
            self.now_ns.load(Ordering::Relaxed)
        }
        fn ticks(&self) -> Option<u64> {
            Some(self.now_ns() * 3)
        }
    }

    #[test]
    fn timestamps_follow_the_clock_within_a_millisecond_and_never_go_back() {
        let script = Arc::new(Script::default());
        let mut time = TimeSource::new(script.clone(), 0);
        let mut last = 0;
        for step in 0..100_000u64 {
            let now = if step == 60_000 { 1_000_000 } else { script.now_ns() + 7_000 };
            script.now_ns.store(now, Ordering::Relaxed);
            let ms = time.now_ms();
            assert!(ms >= last);
            if step < 60_000 {
                assert!(now / 1_000_000 - ms <= 1, "{ms} at {now}");
            }
            last = ms;
        }
    }

    #[test]
    fn a_new_stream_never_stamps_before_its_last_record() {
        let script = Arc::new(Script::default());
        let mut time = TimeSource::new(script, 5_000);
        assert_eq!(time.now_ms(), 5_000);
    }
}
