//! All segments as a chain: what is missing between and behind them, and the report.

use std::ops::Range;
use std::path::PathBuf;

use super::check::Checked;
use super::facts::Facts;
use super::inventory::Inventory;
use super::report::{Problem, ProblemKind, SegmentCheck, Severity, VerifyReport};
use crate::format::SEGMENT_HEADER_LEN;
use crate::store::Layout;

/// The whole log.
#[derive(Debug)]
pub(super) struct CheckedLog {
    pub(super) inventory: Inventory,
    pub(super) segments: Vec<Checked>,
    /// Problems of segments in their order, and between them.
    pub(super) chain: Vec<Problem>,
    /// Whether retention removed every segment while they were checked.
    pub(super) is_outrun: bool,
}

impl CheckedLog {
    /// Ids that are missing between segments.
    pub(super) fn holes(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.segments.windows(2).filter_map(|pair| {
            let (from, to) = (pair[0].facts.ends.index() + 1, pair[1].facts.ends.index());
            (from < to).then_some(from..to)
        })
    }

    pub(super) fn check_chain(&mut self, missing: &Missing<'_>) {
        let mut chain = Vec::new();
        for (i, checked) in self.segments.iter().enumerate() {
            if let Some(previous) = i.checked_sub(1).map(|i| &self.segments[i]) {
                chain.extend(between(missing, previous, checked));
            }
            chain.extend(checked.problems.iter().cloned());
        }
        chain.extend(self.missing_end(missing));
        self.chain = chain;
    }

    /// Logical offset behind the last record there is, or was before retention.
    pub(super) fn next_offset(&self) -> u64 {
        let claimed = self.inventory.claim.durable_count();
        self.segments.last().map_or(claimed, |last| last.facts.walk.end_offset)
    }

    /// Records that the watermark file claims behind all segments.
    pub(super) fn missing_records(&self) -> Option<Range<u64>> {
        let end = self.segments.last().map_or(0, |last| last.facts.walk.end_offset);
        let claimed = self.inventory.claim.durable_count();
        (claimed > end && !self.is_outrun).then_some(end..claimed)
    }

    fn missing_end(&self, missing: &Missing<'_>) -> Option<Problem> {
        let records = self.missing_records()?;
        let next = self.segments.last().map_or(0, |last| last.facts.ends.index() + 1);
        Some(Problem {
            kind: ProblemKind::MissingRecords,
            severity: Severity::Damage,
            path: (missing.place)(next),
            offset: 0,
            detail: "the newest segment is missing: the watermark file claims its records".into(),
            records,
        })
    }

    pub(super) fn into_report(self, layout: &Layout) -> VerifyReport {
        let next_offset = self.next_offset();
        let Self { inventory, segments, chain, .. } = self;
        let mut problems = inventory.problems;
        problems.extend(chain);
        let gaps = segments.iter().flat_map(|s| s.facts.walk.gaps.iter().cloned());
        let gaps = join(gaps);
        let segments: Vec<SegmentCheck> =
            segments.iter().map(|s| segment_check(&s.facts)).collect();
        VerifyReport {
            root: layout.root().to_owned(),
            name: inventory.identity.name,
            stream_id: inventory.identity.stream_id,
            format: inventory.identity.format,
            record_count: segments.iter().map(|s| s.record_count).sum(),
            bytes: segments.iter().map(|s| s.bytes).sum(),
            first_offset: segments.first().map_or(next_offset, |s| s.first_offset),
            next_offset,
            durable_offset: inventory.claim.body.map(|body| body.durable_count),
            segments,
            problems,
            gaps,
        }
    }
}

/// How a segment that is not there is named.
pub(super) struct Missing<'a> {
    pub(super) noun: &'a str,
    /// Where it would be.
    pub(super) place: &'a dyn Fn(u32) -> PathBuf,
}

/// Path of a segment file that is not there.
pub(super) fn pattern(layout: &Layout, segment_index: u32) -> PathBuf {
    layout.segments_dir().join(format!("{segment_index:020}_*.seg"))
}

/// What is wrong between two segments.
fn between(missing: &Missing<'_>, previous: &Checked, here: &Checked) -> Option<Problem> {
    let (before, after) = (&previous.facts, &here.facts);
    let missing_from = before.ends.index() + 1;
    let records = before.walk.end_offset..after.walk.first_offset.max(before.walk.end_offset);
    let problem = |kind, path, offset, records, detail| Problem {
        kind,
        severity: Severity::Damage,
        path,
        offset,
        records,
        detail,
    };
    if missing_from < after.ends.index() {
        let detail = match after.ends.index() - missing_from {
            1 => format!("the {} is missing", missing.noun),
            n => format!("{n} {}s from here on are missing", missing.noun),
        };
        let path = (missing.place)(missing_from);
        return Some(problem(ProblemKind::MissingSegment, path, 0, records, detail));
    }
    // Behind a torn segment nothing counts; a blank one has nothing to say.
    if previous.is_torn || after.is_blank() {
        return None;
    }
    let path = after.ends.path.clone();
    let (expected, found) = (before.walk.end_offset, after.walk.first_offset);
    if expected != found {
        let affected = expected.min(found)..expected.max(found);
        let detail =
            format!("it begins with record {found}, the segment before it ends at {expected}");
        let offset = SEGMENT_HEADER_LEN as u64;
        return Some(problem(ProblemKind::Sequence, path, offset, affected, detail));
    }
    let base = fitting_base(before, after);
    (base != after.ends.name.base_offset).then(|| {
        let detail = format!(
            "the name says that {} stream bytes come before it, there are {base}",
            after.ends.name.base_offset
        );
        problem(ProblemKind::Name, path, 0, found..found, detail)
    })
}

/// The base offset that a segment's name should have. A segment of nothing but gaps
/// may stand for one that was larger, so behind it any larger base fits.
pub(super) fn fitting_base(before: &Facts, here: &Facts) -> u64 {
    let end = before.ends.name.base_offset + u64::from(before.walk.end);
    let given = here.ends.name.base_offset;
    if before.walk.is_only_gaps() { given.max(end) } else { end }
}

fn segment_check(facts: &Facts) -> SegmentCheck {
    let Facts { ends, walk, .. } = facts;
    SegmentCheck {
        segment_id: ends.name.segment_id.as_u64(),
        path: ends.path.clone(),
        residency: ends.residency(),
        is_sealed: ends.sealed().is_some(),
        first_offset: walk.first_offset,
        record_count: walk.intact_count,
        bytes: u64::from(walk.end),
        first_timestamp_ms: walk.first_timestamp_ms,
        last_timestamp_ms: walk.last_timestamp_ms,
    }
}

/// Joins ranges that touch.
fn join(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges.filter(|r| !r.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}
