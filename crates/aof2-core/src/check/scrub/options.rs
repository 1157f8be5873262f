//! What to scrub and how.

use std::ops::Range;

use crate::error::{AofError, Result};
use crate::store::Residency;

/// What a scrub reads, how fast, and whether it changes anything.
///
/// ```
/// use aof2_core::ScrubOptions;
/// let only_look = ScrubOptions { heal: false, ..ScrubOptions::default() };
/// assert!(only_look.hot && only_look.warm && only_look.cold);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubOptions {
    /// Whether segment files are checked.
    pub hot: bool,
    /// Whether compressed files are checked.
    pub warm: bool,
    /// Whether objects are checked. Each is read as a whole.
    pub cold: bool,
    /// Segments by number; all of them by default.
    pub segments: Range<u64>,
    /// Bytes read in a second at most; no limit by default.
    pub bytes_per_second: Option<u64>,
    /// Whether a damaged copy is replaced where another one is good; on by default. A
    /// segment with one is read and healed as a whole, whichever tiers were asked for.
    pub heal: bool,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        Self {
            hot: true,
            warm: true,
            cold: true,
            segments: 0..u64::MAX,
            bytes_per_second: None,
            heal: true,
        }
    }
}

impl ScrubOptions {
    /// Checks every field.
    pub fn validate(&self) -> Result<()> {
        if self.bytes_per_second == Some(0) {
            let reason = "must be at least 1".to_owned();
            return Err(AofError::InvalidConfig { field: "bytes_per_second", reason });
        }
        Ok(())
    }

    /// Whether every copy of every segment is checked.
    pub(super) fn is_of_everything(&self) -> bool {
        self.hot && self.warm && self.cold && self.segments == (0..u64::MAX)
    }

    pub(super) fn includes(&self, tier: Residency) -> bool {
        match tier {
            Residency::Hot => self.hot,
            Residency::Warm => self.warm,
            Residency::Cold => self.cold,
        }
    }
}
