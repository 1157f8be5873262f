//! What the tiers do while the object store does not answer.
//!
//! That is the store's trouble and not that of a segment: nothing is planned that needs it
//! but one probe, no failure of that time counts against what failed, and when the store
//! answers again everything is due at once. What fails while the store answers others (a
//! key that is refused, a damaged source) keeps pauses of its own.

use super::archive::ColdTask;
use crate::bucket::ColdTier;
use crate::error::AofError;
use crate::object::Outage;

impl ColdTask {
    /// Whether it asks the object store anything.
    pub(super) fn needs_store(self) -> bool {
        !matches!(self, Self::Verify(_) | Self::Probe)
    }
}

/// Whether something failed because the store answers nobody.
pub(super) fn is_outage(error: &AofError, cold: &ColdTier) -> bool {
    match error {
        AofError::Cold(error) => error.is_outage(),
        // Of the manifest's uploads only that they were not done is known.
        AofError::Timeout { .. } => cold.outage().is_some(),
        _ => false,
    }
}

/// What fails although the store answers, and may fail for everybody, is tried again at
/// least this often: a store that can be read but not written, as while it starts.
const PAUSE_MS_MAX: u64 = 10_000;

/// How long the pause after a failure may be, however often it failed before.
pub(super) fn pause_max_ms(error: &AofError) -> u64 {
    match error {
        AofError::Cold(error) if error.may_be_of_all() => PAUSE_MS_MAX,
        _ => u64::MAX,
    }
}

/// The outage as an operator reads it.
pub(super) fn describe(outage: &Outage, probe_ms: u64, now_ms: u64) -> String {
    let Outage { since_ms, cause, .. } = outage;
    let seconds = now_ms.saturating_sub(*since_ms) / 1_000;
    format!(
        "the object store has not answered for {seconds} s; one request asks every {probe_ms} ms \
         whether it is back, everything else waits for that: {cause}"
    )
}
