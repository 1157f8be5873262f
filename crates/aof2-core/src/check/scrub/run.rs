//! Going through the segments of a stream.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::host::ScrubHost;
use super::options::ScrubOptions;
use super::pace::Pace;
use super::progress::Telling;
use super::report::{SCRUB_SCHEMA_ID, ScrubFinding, ScrubOutcome, ScrubProgress, ScrubReport};
use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::write::Stream;

/// Scrubs on this thread; see `Aof::scrub`.
pub(crate) fn scrub_now(
    stream: &Arc<Stream>,
    host: &dyn ScrubHost,
    options: &ScrubOptions,
    progress: &mut dyn FnMut(&ScrubProgress) -> ControlFlow<()>,
) -> Result<ScrubReport> {
    options.validate()?;
    let ids = ids_in(stream, &options.segments);
    let pace = Pace::new(Arc::clone(stream), options.bytes_per_second);
    let telling = Telling::new(Arc::clone(&pace), ids.len() as u64, progress);
    let mut scrub = Scrub::new(stream, host, options, pace, telling);
    let ended = scrub.all(&ids);
    let mut report = scrub.finish();
    match ended {
        Ok(()) => report.is_complete = true,
        Err(AofError::Cancelled) => {}
        Err(error) => return Err(error),
    }
    if report.is_complete && options.is_of_everything() {
        host.state().complete(stream, stream.store().now_ms());
    }
    Ok(report)
}

/// Sealed segments, oldest first.
fn ids_in(stream: &Stream, wanted: &Range<u64>) -> Vec<SegmentId> {
    let entries = stream.store().table().snapshot();
    let sealed = entries.iter().filter(|entry| entry.sealed_info().is_some());
    sealed.map(|entry| entry.meta.segment_id).filter(|id| wanted.contains(&id.as_u64())).collect()
}

/// A scrub under way.
pub(super) struct Scrub<'a> {
    pub(super) stream: &'a Arc<Stream>,
    pub(super) host: &'a dyn ScrubHost,
    pub(super) options: &'a ScrubOptions,
    pub(super) pace: Arc<Pace>,
    pub(super) telling: Telling<'a>,
    pub(super) report: ScrubReport,
    /// Bytes that were counted already.
    counted: u64,
}

impl<'a> Scrub<'a> {
    pub(super) fn new(
        stream: &'a Arc<Stream>,
        host: &'a dyn ScrubHost,
        options: &'a ScrubOptions,
        pace: Arc<Pace>,
        telling: Telling<'a>,
    ) -> Self {
        let report = ScrubReport::default();
        Self { stream, host, options, pace, telling, report, counted: 0 }
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
        let counters = self.host.counters();
        counters.bytes.fetch_add(bytes - self.counted, Ordering::Relaxed);
        self.counted = bytes;
    }

    /// Checks the copies of one segment, and heals them.
    fn segment(&mut self, segment_id: SegmentId) -> Result<()> {
        let Some(entry) = self.stream.store().table().find(segment_id.as_u32()) else {
            return Ok(());
        };
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
        self.host.counters().segments.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Counts, records and tells a finding. One that was there before is not recorded
    /// again.
    pub(super) fn found(&mut self, finding: ScrubFinding) {
        let segment_id = SegmentId::from_u64(finding.segment_id);
        let is_healed = matches!(finding.outcome, ScrubOutcome::Healed { .. });
        let counters = self.host.counters();
        counters.damage_found.fetch_add(1, Ordering::Relaxed);
        counters.healed.fetch_add(u64::from(is_healed), Ordering::Relaxed);
        self.telling.so_far.damage_found += 1;
        self.telling.so_far.healed += u64::from(is_healed);
        let is_new = match is_healed {
            true => {
                self.host.state().is_well(segment_id, finding.tier);
                true
            }
            false => self.host.state().is_ill(segment_id, finding.tier),
        };
        if is_new {
            let blob = finding.blob();
            if let Err(error) =
                self.stream.store().record_event(Some(segment_id), SCRUB_SCHEMA_ID, &blob)
            {
                tracing::warn!(%error, "the manifest did not take a finding");
            }
        }
        let stream = self.stream.store().name();
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
