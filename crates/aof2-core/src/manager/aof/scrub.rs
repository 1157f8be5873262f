//! Checking every copy, and replacing damaged ones.

use std::ops::ControlFlow;

use super::Aof;
use crate::check::{ScrubOptions, ScrubProgress, ScrubReport, scrub_now};
use crate::error::Result;

impl Aof {
    /// Reads every copy of every sealed segment, compares it with its checksums, and
    /// replaces what is damaged or gone where another copy is good. Appends and reads go
    /// on. `progress` is told how far it is and may end it; a segment whose copies are
    /// being replaced is finished first.
    ///
    /// A damaged file goes to `quarantine/`, a damaged object is superseded by another
    /// and deleted later. Damage without a good copy is left as it is:
    /// [`ScrubOutcome::NeedsRepair`](crate::ScrubOutcome::NeedsRepair). Every finding is recorded in the manifest, as
    /// [`SCRUB_SCHEMA_ID`](crate::SCRUB_SCHEMA_ID) says.
    ///
    /// ```
    /// use aof2_core::{AofConfig, AofManager, ManagerConfig, ScrubOptions, TierConfig};
    /// use std::ops::ControlFlow;
    /// # let dir = tempfile::tempdir()?;
    /// let tiers = Some(TierConfig::default());
    /// let manager = AofManager::new(ManagerConfig { tiers, ..Default::default() })?;
    /// let log = manager.open(AofConfig::new(dir.path().join("events")))?;
    /// log.append(b"hello")?;
    /// log.seal()?;
    /// let report = log.scrub(&ScrubOptions::default(), &mut |_| ControlFlow::Continue(()))?;
    /// assert!(report.is_complete && report.is_clean());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scrub(
        &self,
        options: &ScrubOptions,
        progress: &mut dyn FnMut(&ScrubProgress) -> ControlFlow<()>,
    ) -> Result<ScrubReport> {
        scrub_now(self.stream(), self.stream_tiers()?, options, progress)
    }
}
