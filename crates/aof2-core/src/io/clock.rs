//! Time, as the log sees it.

use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

/// A source of wall-clock time.
pub trait Clock: Send + Sync + Debug + 'static {
    /// Nanoseconds since the Unix epoch.
    fn now_ns(&self) -> u64;
    /// Something that grows with time and is cheap to read; its unit is unknown.
    /// `None` where there is nothing cheaper than [`Clock::now_ns`].
    fn ticks(&self) -> Option<u64>;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    #[inline]
    fn ticks(&self) -> Option<u64> {
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: reading the time stamp counter has no preconditions on x86_64
            // in user mode and touches no memory.
            Some(unsafe { core::arch::x86_64::_rdtsc() })
        }
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}
