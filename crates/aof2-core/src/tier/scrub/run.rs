//! Going through the segments of a stream.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::check::{Checker, Verdict};
use super::heal::{Healed, Healer, Verdicts, is_gone};
use super::options::ScrubOptions;
use super::pace::Pace;
use super::progress::Telling;
use super::report::{
    SCRUB_SCHEMA_ID, ScrubFinding, ScrubOutcome, ScrubProgress, ScrubReport, ScrubUnreached,
};
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::log::{
    Aof, Aside, End, OnCorruption, Residency, Scan, ScanOptions, SegmentEntry, Start, Stream,
};
use crate::tier::stream::StreamTiers;

const TIERS: [Residency; 3] = [Residency::Hot, Residency::Warm, Residency::Cold];

impl Aof {
    /// Reads every copy of every sealed segment, compares it with its checksums, and
    /// replaces what is damaged or gone where another copy is good. Appends and reads go
    /// on. `progress` is told how far it is and may end it; a segment whose copies are
    /// being replaced is finished first.
    ///
    /// A damaged file goes to `quarantine/`, a damaged object is superseded by another
    /// and deleted later. Damage without a good copy is left as it is:
    /// [`ScrubOutcome::NeedsRepair`]. Every finding is recorded in the manifest, as
    /// [`SCRUB_SCHEMA_ID`] says.
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
        options.validate()?;
        let tiers = self.stream_tiers()?;
        let ids = ids_in(self.stream(), &options.segments);
        let pace = Pace::new(Arc::clone(self.stream()), options.bytes_per_second);
        let telling = Telling::new(Arc::clone(&pace), ids.len() as u64, progress);
        let mut scrub = Scrub::new(self.stream(), tiers, options, pace, telling);
        let ended = scrub.all(&ids);
        let mut report = scrub.finish();
        match ended {
            Ok(()) => report.is_complete = true,
            Err(AofError::Cancelled) => {}
            Err(error) => return Err(error),
        }
        if report.is_complete && options.is_of_everything() {
            tiers.scrub.complete(tiers.coordinator.now_ms());
        }
        Ok(report)
    }
}

/// Sealed segments, oldest first.
fn ids_in(stream: &Stream, wanted: &Range<u64>) -> Vec<SegmentId> {
    let entries = stream.table.snapshot();
    let sealed = entries.iter().filter(|entry| entry.sealed_info().is_some());
    sealed.map(|entry| entry.meta.segment_id).filter(|id| wanted.contains(&id.as_u64())).collect()
}

/// A scrub under way.
pub(super) struct Scrub<'a> {
    stream: &'a Arc<Stream>,
    tiers: &'a StreamTiers,
    options: &'a ScrubOptions,
    pace: Arc<Pace>,
    telling: Telling<'a>,
    report: ScrubReport,
    /// Bytes that were counted already.
    counted: u64,
}

impl<'a> Scrub<'a> {
    pub(super) fn new(
        stream: &'a Arc<Stream>,
        tiers: &'a StreamTiers,
        options: &'a ScrubOptions,
        pace: Arc<Pace>,
        telling: Telling<'a>,
    ) -> Self {
        let report = ScrubReport::default();
        Self { stream, tiers, options, pace, telling, report, counted: 0 }
    }

    pub(super) fn all(&mut self, ids: &[SegmentId]) -> Result<()> {
        for &segment_id in ids {
            self.telling.so_far.segment_id = segment_id.as_u64();
            self.telling.tell();
            self.pace.check()?;
            let done = self.segment(segment_id);
            self.count();
            done?;
            self.telling.so_far.segments = self.report.segments;
        }
        self.telling.tell();
        Ok(())
    }

    pub(super) fn finish(mut self) -> ScrubReport {
        self.count();
        self.report.bytes = self.pace.bytes();
        self.report
    }

    fn count(&mut self) {
        let bytes = self.pace.bytes();
        let counters = &self.tiers.counters;
        counters.scrubbed_bytes.fetch_add(bytes - self.counted, Ordering::Relaxed);
        self.counted = bytes;
    }

    /// Checks the copies of one segment, and heals them.
    fn segment(&mut self, segment_id: SegmentId) -> Result<()> {
        let Some(entry) = self.stream.table.find(segment_id.as_u32()) else { return Ok(()) };
        match &entry.damage {
            Some(damage) => {
                let place = damage.path.display().to_string();
                let records = damage.records.clone();
                let reason = "no other copy was found when the log was opened".to_owned();
                self.found(ScrubFinding {
                    segment_id: segment_id.as_u64(),
                    tier: entry.residency(),
                    place,
                    problem: damage.reason.clone(),
                    outcome: ScrubOutcome::NeedsRepair { reason },
                    quarantined: None,
                    unreadable: if records.is_empty() { Vec::new() } else { vec![records] },
                });
            }
            None => self.copies(&entry)?,
        }
        self.report.segments += 1;
        self.tiers.counters.scrubbed_segments.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn copies(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let warm = entry.away_copies().warm;
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

    fn checker(&self) -> Checker<'a> {
        let cold = self.tiers.coordinator.cold();
        Checker { stream: self.stream, cold, pace: Arc::clone(&self.pace) }
    }

    /// A copy that is bad is read twice: a bit that flipped on its way here is no damage.
    fn check(&mut self, entry: &SegmentEntry, tier: Residency) -> Result<Verdict> {
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
            Verdict::Good | Verdict::Absent => self.tiers.scrub.is_well(segment_id, tier),
            Verdict::Bad(_) => {}
            Verdict::Unreached(error) => {
                let place = self.place_of(entry, tier);
                tracing::warn!(
                    stream = %self.stream.identity.name, segment = segment_id.as_u64(),
                    tier = %tier, place, error, "a copy could not be checked"
                );
                let segment_id = segment_id.as_u64();
                let error = error.clone();
                self.report.unreached.push(ScrubUnreached { segment_id, tier, place, error });
            }
        }
    }

    fn place_of(&self, entry: &SegmentEntry, tier: Residency) -> String {
        let copies = entry.away_copies();
        let name = match tier {
            Residency::Hot => return entry.path.display().to_string(),
            Residency::Warm => copies.warm,
            Residency::Cold => copies.cold,
        };
        name.map_or_else(String::new, |copy| copy.source().name().display().to_string())
    }

    /// Heals what is bad, if that was asked for, and reports it.
    fn bad_copies(
        &mut self,
        entry: &Arc<SegmentEntry>,
        warm: Option<Arc<crate::segment::Artifact>>,
        mut verdicts: Verdicts,
    ) -> Result<()> {
        let places = TIERS.map(|tier| (tier, self.place_of(entry, tier)));
        let place = |tier| {
            let known = places.iter().find(|(of, _)| *of == tier);
            known.map_or_else(String::new, |(_, place)| place.clone())
        };
        let bad: Vec<Residency> =
            TIERS.into_iter().filter(|tier| verdicts.of(*tier).is_bad()).collect();
        if self.options.heal {
            // A copy is a source only if it was read as a whole.
            for tier in TIERS.into_iter().filter(|tier| !self.options.includes(*tier)) {
                let verdict = self.check(entry, tier)?;
                // What was not asked for is not healed.
                if verdict.is_good() {
                    self.put(&mut verdicts, tier, verdict);
                }
            }
        }
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
                    true => {
                        ScrubOutcome::NeedsRepair { reason: "no copy of it is good".to_owned() }
                    }
                };
                let unreadable = unreadable.clone();
                self.found(ScrubFinding { unreadable, ..finding(tier, outcome) });
            }
            return Ok(());
        }
        let healer = Healer { stream: self.stream, tiers: self.tiers, segment_id, warm };
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
        warm: &Option<Arc<crate::segment::Artifact>>,
    ) -> bool {
        let now = self.stream.table.find(entry.meta.segment_id.as_u32());
        let is_known = now.is_some_and(|now| Arc::ptr_eq(&now, entry));
        is_known
            && match tier {
                Residency::Hot => entry.is_hot(),
                Residency::Warm => match (entry.away_copies().warm, warm) {
                    (Some(now), Some(then)) => Arc::ptr_eq(&now, then),
                    _ => false,
                },
                Residency::Cold => entry.away_copies().cold.is_some(),
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

    /// The end of the object that is kept here is rewritten from what is in memory.
    fn kept_tail(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let copies = entry.away_copies();
        let Some(cold) = &copies.cold else { return Ok(()) };
        let path = self.stream.layout.cold_path(&copies.cold_name(cold));
        let Verdict::Bad(problem) =
            self.checker().check_tail(&path, &cold.index().encode_tail())?
        else {
            return Ok(());
        };
        let is_same = entry.away_copies().cold.is_some_and(|now| Arc::ptr_eq(&now, cold));
        if !is_same {
            return Ok(());
        }
        let outcome = match self.options.heal {
            false => ScrubOutcome::Damaged,
            true => match self.stream.restore_tail(entry.meta.segment_id) {
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
    fn passed_over(&mut self, entry: &Arc<SegmentEntry>) -> Result<()> {
        let segment_id = entry.meta.segment_id;
        let path = &entry.path;
        let stream = self.stream;
        let is_there = || stream.storage.exists(path).unwrap_or(false);
        if self.options.hot && !entry.is_hot() && is_there() && !entry.is_hot() {
            let aside = || stream.set_aside_passed_over(segment_id);
            let from = entry.residency();
            let place = path.display().to_string();
            let problem = "opening the log could not use it".to_owned();
            let tier = Residency::Hot;
            if self.aside(segment_id, tier, place, problem, from, aside)? {
                // It comes back within the budget; a refusal leaves it where it is.
                let _ = self.tiers.ask(segment_id, crate::tier::activation::Priority::Prefetch);
            }
        }
        if !self.options.warm {
            return Ok(());
        }
        for path in self.stream.warm_passed_over(entry).unwrap_or_default() {
            let checker = self.checker();
            let mut told = || self.telling.tell_bytes();
            let verdict = checker.check_passed_over(path.clone(), &mut told)?;
            // A file that is gone by now was a temporary state of a move.
            let Verdict::Bad(problem) = verdict else { continue };
            if !self.stream.storage.exists(&path).unwrap_or(false) {
                continue;
            }
            let aside = || stream.set_aside_warm_passed_over(segment_id, &path);
            let (tier, from) = (Residency::Warm, entry.residency());
            let place = path.display().to_string();
            let is_aside = self.aside(segment_id, tier, place, problem, from, aside)?;
            if is_aside && entry.away_copies().warm.is_none() {
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
        aside: impl FnOnce() -> Result<Aside>,
    ) -> Result<bool> {
        let mut quarantined = None;
        let outcome = match self.options.heal {
            false => ScrubOutcome::Damaged,
            true => match aside() {
                Ok(Aside::Changed) => return Ok(false),
                Ok(Aside::Taken(to)) => {
                    quarantined = to;
                    ScrubOutcome::Healed { from }
                }
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
        let healer = Healer { stream: self.stream, tiers: self.tiers, segment_id, warm: None };
        if let Err(error) = healer.make_warm(&verdicts) {
            tracing::warn!(%error, segment = segment_id.as_u64(), "no compressed copy was made");
        }
        self.tiers.moved(self.stream);
        Ok(())
    }

    /// Counts, records and tells a finding. One that was there before is not recorded
    /// again.
    fn found(&mut self, finding: ScrubFinding) {
        let segment_id = SegmentId::from_u64(finding.segment_id);
        let is_healed = matches!(finding.outcome, ScrubOutcome::Healed { .. });
        let counters = &self.tiers.counters;
        counters.damage_found.fetch_add(1, Ordering::Relaxed);
        counters.healed.fetch_add(u64::from(is_healed), Ordering::Relaxed);
        self.telling.so_far.damage_found += 1;
        self.telling.so_far.healed += u64::from(is_healed);
        let is_new = match is_healed {
            true => {
                self.tiers.scrub.is_well(segment_id, finding.tier);
                true
            }
            false => self.tiers.scrub.is_ill(segment_id, finding.tier),
        };
        if is_new {
            let blob = finding.blob();
            if let Err(error) = self.stream.record_event(Some(segment_id), SCRUB_SCHEMA_ID, &blob) {
                tracing::warn!(%error, "the manifest did not take a finding");
            }
        }
        let stream = &self.stream.identity.name;
        let ScrubFinding { tier, place, problem, outcome, .. } = &finding;
        match is_healed {
            true => tracing::warn!(
                %stream, segment = finding.segment_id, %tier, place, problem, "damage was healed"
            ),
            false => tracing::error!(
                %stream, segment = finding.segment_id, %tier, place, problem, ?outcome,
                "damage was found"
            ),
        }
        self.report.findings.push(finding);
    }
}
