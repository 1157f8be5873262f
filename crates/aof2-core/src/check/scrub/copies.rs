//! Checking the copies of one segment, and having the bad ones healed.

use std::ops::Range;
use std::sync::Arc;

use super::check::{Checker, Verdict};
use super::heal::{Healed, Healer, Verdicts, is_gone};
use super::report::{ScrubFinding, ScrubOutcome, ScrubUnreached};
use super::run::Scrub;
use crate::error::{AofError, Result};
use crate::read::{End, Hydrate, OnCorruption, Scan, ScanOptions, Start};
use crate::segment::Artifact;
use crate::store::{Residency, SegmentEntry};

const TIERS: [Residency; 3] = [Residency::Hot, Residency::Warm, Residency::Cold];

impl<'a> Scrub<'a> {
    pub(super) fn copies(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let warm = entry.copies().warm;
        let mut verdicts =
            Verdicts { hot: Verdict::Absent, warm: Verdict::Absent, cold: Verdict::Absent };
        for tier in TIERS.into_iter().filter(|tier| self.options.includes(*tier)) {
            let verdict = self.check(entry, tier)?;
            self.note_checked(entry, tier, &verdict);
            self.put(&mut verdicts, tier, verdict);
        }
        if self.options.cold && verdicts.cold.is_good() {
            self.kept_tail(entry)?;
        }
        if verdicts.any_bad() {
            self.bad_copies(entry, warm, verdicts)?;
        }
        self.passed_over(entry)
    }

    fn put(&self, verdicts: &mut Verdicts, tier: Residency, verdict: Verdict) {
        match tier {
            Residency::Hot => verdicts.hot = verdict,
            Residency::Warm => verdicts.warm = verdict,
            Residency::Cold => verdicts.cold = verdict,
        }
    }

    pub(super) fn checker(&self) -> Checker<'a> {
        let cold = self.stream.store().cold().tier();
        Checker { stream: self.stream, cold, pace: Arc::clone(&self.pace) }
    }

    /// A copy that is bad is read twice: a bit that flipped on its way here is no damage.
    pub(super) fn check(&mut self, entry: &SegmentEntry, tier: Residency) -> Result<Verdict> {
        let checker = self.checker();
        let mut told = || self.telling.tell_bytes();
        match checker.check(entry, tier, &mut told)? {
            Verdict::Bad(_) => checker.check(entry, tier, &mut told),
            verdict => Ok(verdict),
        }
    }

    fn note_checked(&mut self, entry: &SegmentEntry, tier: Residency, verdict: &Verdict) {
        let segment_id = entry.meta.segment_id;
        self.report.copies += u64::from(!matches!(verdict, Verdict::Absent));
        match verdict {
            Verdict::Good | Verdict::Absent => self.host.state().is_well(segment_id, tier),
            Verdict::Bad(_) => {}
            Verdict::Unreached(error) => {
                let place = self.place_of(entry, tier);
                tracing::warn!(
                    stream = %self.stream.store().identity().name, segment = segment_id.as_u64(),
                    tier = %tier, place, error, "a copy could not be checked"
                );
                let segment_id = segment_id.as_u64();
                let error = error.clone();
                self.report.unreached.push(ScrubUnreached { segment_id, tier, place, error });
            }
        }
    }

    fn place_of(&self, entry: &SegmentEntry, tier: Residency) -> String {
        let copies = entry.copies();
        let artifact = match tier {
            Residency::Hot => return entry.path.display().to_string(),
            Residency::Warm => copies.warm,
            Residency::Cold => copies.cold.map(|cold| cold.artifact),
        };
        artifact.map_or_else(String::new, |copy| copy.source().name().display().to_string())
    }

    /// Heals what is bad, if that was asked for, and reports it.
    fn bad_copies(
        &mut self,
        entry: &Arc<SegmentEntry>,
        warm: Option<Arc<Artifact>>,
        mut verdicts: Verdicts,
    ) -> Result<()> {
        let places = TIERS.map(|tier| (tier, self.place_of(entry, tier)));
        let place = |tier| {
            let known = places.iter().find(|(of, _)| *of == tier);
            known.map_or_else(String::new, |(_, place)| place.clone())
        };
        if self.options.heal {
            // A copy is a source only if it was read as a whole, and a segment is healed
            // as a whole: what is made again must not come from a copy that nobody read.
            for tier in TIERS.into_iter().filter(|tier| !self.options.includes(*tier)) {
                let verdict = self.check(entry, tier)?;
                self.note_checked(entry, tier, &verdict);
                self.put(&mut verdicts, tier, verdict);
            }
        }
        let bad: Vec<Residency> =
            TIERS.into_iter().filter(|tier| verdicts.of(*tier).is_bad()).collect();
        let segment_id = entry.meta.segment_id;
        let finding = |tier: Residency, outcome| ScrubFinding {
            segment_id: segment_id.as_u64(),
            tier,
            place: place(tier),
            problem: match verdicts.of(tier) {
                Verdict::Bad(problem) => problem.clone(),
                _ => String::new(),
            },
            outcome,
            quarantined: None,
            unreadable: Vec::new(),
        };
        if !self.options.heal || !verdicts.any_good() {
            let unreadable = self.unreadable(entry);
            for tier in bad {
                if !self.is_still_there(entry, tier, &warm) {
                    continue;
                }
                let outcome = match self.options.heal {
                    false => ScrubOutcome::Damaged,
                    true => ScrubOutcome::NeedsRepair { reason: verdicts.no_source().to_owned() },
                };
                let unreadable = unreadable.clone();
                self.found(ScrubFinding { unreadable, ..finding(tier, outcome) });
            }
            return Ok(());
        }
        let healer = Healer { stream: self.stream, host: self.host, segment_id, warm };
        let checker = self.checker();
        let healed = healer.heal(&verdicts, |entry| {
            Ok(checker.check(entry, Residency::Hot, &mut || {})?.is_bad())
        });
        for Healed { tier, outcome, quarantined } in healed {
            let outcome = match outcome {
                Ok(Some(from)) => ScrubOutcome::Healed { from },
                // It moved or was replaced meanwhile.
                Ok(None) => continue,
                Err(error) if is_gone(&error) => continue,
                Err(AofError::Closed) => return Err(AofError::Closed),
                Err(error) => ScrubOutcome::NeedsRepair { reason: error.to_string() },
            };
            self.found(ScrubFinding { quarantined, ..finding(tier, outcome) });
        }
        Ok(())
    }

    /// Whether the copy that was found bad is still the segment's.
    fn is_still_there(
        &self,
        entry: &Arc<SegmentEntry>,
        tier: Residency,
        warm: &Option<Arc<Artifact>>,
    ) -> bool {
        let now = self.stream.store().table().find(entry.meta.segment_id.as_u32());
        let is_known = now.is_some_and(|now| Arc::ptr_eq(&now, entry));
        is_known
            && match tier {
                Residency::Hot => entry.is_hot(),
                Residency::Warm => match (entry.copies().warm, warm) {
                    (Some(now), Some(then)) => Arc::ptr_eq(&now, then),
                    _ => false,
                },
                Residency::Cold => entry.copies().cold.is_some(),
            }
    }

    /// Records of a segment that no read gives: what a scan passes over.
    fn unreadable(&self, entry: &SegmentEntry) -> Vec<Range<u64>> {
        let Some(end) = entry.end_offset() else { return Vec::new() };
        let mut next = entry.meta.first_offset;
        let options = ScanOptions {
            start: Start::Offset(next),
            end: End::Offset(end),
            on_corruption: OnCorruption::Skip,
            hydrate: Hydrate::Never,
            ..ScanOptions::default()
        };
        let mut missing = Vec::new();
        let mut miss = |from: u64, to: u64| {
            if from < to {
                missing.push(from..to);
            }
        };
        if let Ok(mut scan) = Scan::new(Arc::clone(self.stream) as _, options) {
            while let Ok(Some(batch)) = scan.next_batch() {
                miss(next, batch.offsets().start);
                next = batch.offsets().end;
            }
        }
        miss(next, end);
        missing
    }
}
