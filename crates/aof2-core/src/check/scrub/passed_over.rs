//! Files beside a segment's copies: the end of its object that is kept here, and what
//! opening the log passed over because it is damaged and another copy is not.

use std::sync::Arc;

use super::check::Verdict;
use super::heal::{Healer, Verdicts, is_gone};
use super::report::{ScrubFinding, ScrubOutcome};
use super::run::Scrub;
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::store::{Change, Residency, SegmentEntry, Suspect};

impl Scrub<'_> {
    /// The end of the object that is kept here is rewritten from what is in memory.
    pub(super) fn kept_tail(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let copies = entry.copies();
        let Some(cold) = &copies.cold else { return Ok(()) };
        let path = self.stream.store().layout().cold_path(&cold.index_name());
        let Verdict::Bad(problem) =
            self.checker().check_tail(&path, &cold.artifact.index().encode_tail())?
        else {
            return Ok(());
        };
        let is_same =
            entry.copies().cold.is_some_and(|now| Arc::ptr_eq(&now.artifact, &cold.artifact));
        if !is_same {
            return Ok(());
        }
        let outcome = match self.options.heal {
            false => ScrubOutcome::Damaged,
            true => match self.stream.store().restore_kept_index(entry.meta.segment_id) {
                Ok(()) => ScrubOutcome::Healed { from: Residency::Cold },
                Err(error) if is_gone(&error) => return Ok(()),
                Err(AofError::Closed) => return Err(AofError::Closed),
                Err(error) => ScrubOutcome::NeedsRepair { reason: error.to_string() },
            },
        };
        self.found(ScrubFinding {
            segment_id: entry.meta.segment_id.as_u64(),
            tier: Residency::Cold,
            place: path.display().to_string(),
            problem,
            outcome,
            quarantined: None,
            unreadable: Vec::new(),
        });
        Ok(())
    }

    /// Files that opening passed over because they are damaged and another copy is not.
    pub(super) fn passed_over(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let segment_id = entry.meta.segment_id;
        let path = &entry.path;
        let stream = self.stream;
        let is_there = || stream.store().storage().exists(path).unwrap_or(false);
        if self.options.hot && !entry.is_hot() && is_there() && !entry.is_hot() {
            let aside = Suspect::StrayHot;
            let from = entry.residency();
            let place = path.display().to_string();
            let problem = "opening the log could not use it".to_owned();
            let tier = Residency::Hot;
            if self.aside(segment_id, tier, place, problem, from, aside)? {
                // It comes back within the budget; a refusal leaves it where it is.
                self.host.prefetch(segment_id);
            }
        }
        if !self.options.warm {
            return Ok(());
        }
        for path in self.stream.store().stray_warm_files(entry).unwrap_or_default() {
            let checker = self.checker();
            let mut told = || self.telling.tell_bytes();
            let verdict = checker.check_passed_over(path.clone(), &mut told)?;
            // A file that is gone by now was a temporary state of a move.
            let Verdict::Bad(problem) = verdict else { continue };
            if !self.stream.store().storage().exists(&path).unwrap_or(false) {
                continue;
            }
            let aside = Suspect::StrayWarm(path.clone());
            let (tier, from) = (Residency::Warm, entry.residency());
            let place = path.display().to_string();
            let is_aside = self.aside(segment_id, tier, place, problem, from, aside)?;
            if is_aside && entry.copies().warm.is_none() {
                self.make_warm(entry)?;
            }
        }
        Ok(())
    }

    /// Moves a file that no entry names out of the log and reports it. Whether it was
    /// moved.
    fn aside(
        &mut self,
        segment_id: SegmentId,
        tier: Residency,
        place: String,
        problem: String,
        from: Residency,
        suspect: Suspect,
    ) -> Result<bool> {
        let mut quarantined = None;
        let outcome = match self.options.heal {
            false => ScrubOutcome::Damaged,
            true => match self.stream.store().apply(&Change::SetAside(segment_id, suspect)) {
                Ok(applied) if applied.is_done => {
                    quarantined = applied.moved_to;
                    ScrubOutcome::Healed { from }
                }
                Ok(_) => return Ok(false),
                Err(error) if is_gone(&error) => return Ok(false),
                Err(AofError::Closed) => return Err(AofError::Closed),
                Err(error) => ScrubOutcome::NeedsRepair { reason: error.to_string() },
            },
        };
        let is_moved = quarantined.is_some();
        let unreadable = Vec::new();
        let segment_id = segment_id.as_u64();
        let finding =
            ScrubFinding { segment_id, tier, place, problem, outcome, quarantined, unreadable };
        self.found(finding);
        Ok(is_moved)
    }

    /// A compressed copy in place of one that opening passed over. The tiers make one
    /// themselves when they need it, so that a failure is only told.
    fn make_warm(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let hot = self.check(entry, Residency::Hot)?;
        let cold = match hot.is_good() {
            true => Verdict::Absent,
            false => self.check(entry, Residency::Cold)?,
        };
        let verdicts = Verdicts { hot, warm: Verdict::Absent, cold };
        if !verdicts.any_good() {
            return Ok(());
        }
        let segment_id = entry.meta.segment_id;
        let healer = Healer { stream: self.stream, host: self.host, segment_id, warm: None };
        if let Err(error) = healer.make_warm(&verdicts) {
            tracing::warn!(%error, segment = segment_id.as_u64(), "no compressed copy was made");
        }
        self.host.changed();
        Ok(())
    }
}
