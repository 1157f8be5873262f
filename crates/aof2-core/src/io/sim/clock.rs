//! A clock that moves when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rng::Rng;
use crate::io::Clock;

/// A settable clock; clones show the same time.
#[derive(Clone, Debug)]
pub struct SimClock {
    time: Arc<Time>,
}

#[derive(Debug)]
struct Time {
    now_ns: AtomicU64,
    step_ns: AtomicU64,
    /// State of the machine's random numbers. Kept here because a machine that is powered
    /// on again shares the clock, and must not draw the same numbers again.
    random: AtomicU64,
}

impl SimClock {
    /// A clock that stands at `now_ns` since the epoch.
    pub fn new(now_ns: u64) -> Self {
        let time = Time {
            now_ns: AtomicU64::new(now_ns),
            step_ns: AtomicU64::new(0),
            random: AtomicU64::new(0),
        };
        Self { time: Arc::new(time) }
    }

    /// Sets the time, backwards too.
    pub fn set_ns(&self, now_ns: u64) {
        self.time.now_ns.store(now_ns, Ordering::Release);
    }

    /// Moves the time forward.
    pub fn advance_ns(&self, ns: u64) {
        self.time.now_ns.fetch_add(ns, Ordering::AcqRel);
    }

    /// Moves the time forward.
    pub fn advance_ms(&self, ms: u64) {
        self.advance_ns(ms.saturating_mul(1_000_000));
    }

    /// From now on every [`Clock::now_ns`] call moves the time by this much after
    /// reading it.
    pub fn set_step_ns(&self, step_ns: u64) {
        self.time.step_ns.store(step_ns, Ordering::Release);
    }

    pub(super) fn seed_random(&self, seed: u64) {
        self.time.random.store(seed, Ordering::Release);
    }

    pub(super) fn draw(&self) -> u64 {
        let seed = self.time.random.fetch_add(1, Ordering::AcqRel);
        Rng::new(seed.wrapping_mul(0xA076_1D64_78BD_642F)).next()
    }

    /// The time, without moving it.
    pub fn peek_ns(&self) -> u64 {
        self.time.now_ns.load(Ordering::Acquire)
    }
}

impl Default for SimClock {
    /// Some day in 2023: far enough from zero that subtracting hours is harmless.
    fn default() -> Self {
        Self::new(1_700_000_000_000_000_000)
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.time.now_ns.fetch_add(self.time.step_ns.load(Ordering::Acquire), Ordering::AcqRel)
    }

    fn ticks(&self) -> Option<u64> {
        None
    }
}
