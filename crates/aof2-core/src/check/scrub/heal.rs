//! Replacing the bad copies of one segment by good ones.
//!
//! Bad compressed copies leave the table first, so that nothing is read or made from
//! them; then each is made again from a copy that was verified in this scrub. A crash
//! anywhere leaves the good copies, and what is missing is found to be missing by the
//! tiers or by the next scrub.

use std::path::PathBuf;
use std::sync::Arc;

use super::check::Verdict;
use super::host::ScrubHost;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::segment::Artifact;
use crate::store::{Applied, Change, Residency, SegmentEntry, Suspect};
use crate::write::Stream;

/// What is known of the copies of one segment.
#[derive(Debug)]
pub(super) struct Verdicts {
    pub(super) hot: Verdict,
    pub(super) warm: Verdict,
    pub(super) cold: Verdict,
}

impl Verdicts {
    pub(super) fn of(&self, tier: Residency) -> &Verdict {
        match tier {
            Residency::Hot => &self.hot,
            Residency::Warm => &self.warm,
            Residency::Cold => &self.cold,
        }
    }

    pub(super) fn any_good(&self) -> bool {
        self.hot.is_good() || self.warm.is_good() || self.cold.is_good()
    }

    /// Why nothing can be made from them.
    pub(super) fn no_source(&self) -> &'static str {
        let is_unknown = |verdict: &Verdict| matches!(verdict, Verdict::Unreached(_));
        match is_unknown(&self.hot) || is_unknown(&self.warm) || is_unknown(&self.cold) {
            true => "no copy that can be reached is good",
            false => "no copy is good",
        }
    }

    pub(super) fn any_bad(&self) -> bool {
        self.hot.is_bad() || self.warm.is_bad() || self.cold.is_bad()
    }
}

/// How healing one copy went.
#[derive(Debug)]
pub(super) struct Healed {
    pub(super) tier: Residency,
    /// What it was made from; `None` if the copy turned out to be gone or good by now.
    pub(super) outcome: Result<Option<Residency>>,
    pub(super) quarantined: Option<PathBuf>,
}

/// Heals one segment.
pub(super) struct Healer<'a> {
    pub(super) stream: &'a Arc<Stream>,
    pub(super) host: &'a dyn ScrubHost,
    pub(super) segment_id: SegmentId,
    /// The compressed copy that was checked.
    pub(super) warm: Option<Arc<Artifact>>,
}

impl Healer<'_> {
    /// Replaces what is bad; one copy at least is good. `is_damaged` looks at the segment
    /// file once more.
    pub(super) fn heal(
        &self,
        verdicts: &Verdicts,
        is_damaged: impl Fn(&SegmentEntry) -> Result<bool>,
    ) -> Vec<Healed> {
        let warm_aside = verdicts.warm.is_bad().then(|| self.set_aside_warm());
        let cold_lost = verdicts.cold.is_bad().then(|| self.lose_cold());
        let mut all = Vec::new();
        if verdicts.hot.is_bad() {
            all.push(self.heal_hot(verdicts, is_damaged));
        }
        if let Some(aside) = warm_aside {
            all.push(self.heal_warm(verdicts, aside));
        }
        if let Some(lost) = cold_lost {
            all.push(self.heal_cold(verdicts, lost));
        }
        // What the tiers gave up because of the damage can be done now.
        self.host.healed(self.segment_id);
        self.host.changed();
        all
    }

    fn set_aside_warm(&self) -> Result<Applied> {
        let Some(warm) = &self.warm else { return Ok(Applied::default()) };
        let suspect = Suspect::Warm(Arc::clone(warm));
        self.stream.store().apply(&Change::SetAside(self.segment_id, suspect))
    }

    fn heal_hot(
        &self,
        verdicts: &Verdicts,
        is_damaged: impl Fn(&SegmentEntry) -> Result<bool>,
    ) -> Healed {
        let mut healed = Healed { tier: Residency::Hot, outcome: Ok(None), quarantined: None };
        let aside = Change::SetAside(self.segment_id, Suspect::Hot);
        match self.stream.store().apply_if(&aside, &is_damaged) {
            Ok(applied) if applied.is_done => healed.quarantined = applied.moved_to,
            Ok(_) => return healed,
            Err(error) => {
                healed.outcome = Err(error);
                return healed;
            }
        }
        // The nearest copy is a good one: a bad one is no longer in the table.
        let from = if verdicts.warm.is_good() { Residency::Warm } else { Residency::Cold };
        healed.outcome =
            self.stream.store().apply(&Change::Hydrate(self.segment_id)).map(|_| Some(from));
        healed
    }

    fn heal_warm(&self, verdicts: &Verdicts, aside: Result<Applied>) -> Healed {
        let mut healed = Healed { tier: Residency::Warm, outcome: Ok(None), quarantined: None };
        match aside {
            Ok(applied) if applied.is_done => healed.quarantined = applied.moved_to,
            Ok(_) => return healed,
            Err(error) => {
                healed.outcome = Err(error);
                return healed;
            }
        }
        healed.outcome = self.make_warm(verdicts).map(Some);
        healed
    }

    /// Makes the compressed file again. The object is preferred: a copy of it is the
    /// same, byte for byte, and stays recognisable as such.
    pub(super) fn make_warm(&self, verdicts: &Verdicts) -> Result<Residency> {
        if verdicts.cold.is_good() {
            self.stream.store().apply(&Change::Fetch(self.segment_id))?;
            return Ok(Residency::Cold);
        }
        self.host.compress(self.segment_id)?;
        Ok(Residency::Hot)
    }

    fn lose_cold(&self) -> Result<bool> {
        self.stream.store().apply(&Change::Forget(self.segment_id)).map(|applied| applied.is_done)
    }

    fn heal_cold(&self, verdicts: &Verdicts, lost: Result<bool>) -> Healed {
        let from = if verdicts.warm.is_good() { Residency::Warm } else { Residency::Hot };
        let outcome = match lost {
            Ok(false) => Ok(None),
            Ok(true) => self.upload().map(|()| Some(from)),
            Err(error) => Err(error),
        };
        Healed { tier: Residency::Cold, outcome, quarantined: None }
    }

    fn upload(&self) -> Result<()> {
        self.host.upload(self.segment_id)
    }
}

/// Whether an error says that the segment is no longer there to be healed.
pub(super) fn is_gone(error: &AofError) -> bool {
    matches!(error, AofError::NoSuchSegment(_))
}
