//! From facts to problems: each segment by itself, then all of them as a chain.
//!
//! Whatever looks wrong is looked at again before it is reported, because a writer
//! may have been in the middle of it. What the log's own protocol rules out cannot
//! be a writer's doing: a segment that has two named successors has its footer, a
//! record below the durable watermark is complete, a record behind a published one
//! is published.

use std::ops::Range;
use std::path::PathBuf;

use super::examine::{Body, Ends, Facts, is_not_found, is_segment_len};
use super::inventory::{Claim, Inventory, LOOKS_MAX, find_now, list_ids, pause};
use super::report::{Problem, ProblemKind, SegmentCheck, Severity, VerifyProgress, VerifyReport};
use super::walk::Fault;
use super::{Progress, tell};
use crate::error::Result;
use crate::format::{
    FOOTER_SEALED, FormatError, SEGMENT_HEADER_LEN, SegmentFormat, StreamId, WarmFileName,
};
use crate::io::Storage;
use crate::log::layout::Layout;
use crate::log::position::Position;

const START: u32 = SEGMENT_HEADER_LEN as u32;

/// A segment and what is wrong with it.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) facts: Facts,
    /// What is wrong with it and with its copies.
    pub(super) problems: Vec<Problem>,
    /// Whether `facts` are those of something that must be written anew.
    pub(super) is_damaged: bool,
    /// Whether records are cut off that had never been durable.
    pub(super) is_torn: bool,
    /// Other files of the segment that are in order.
    pub(super) copies: Vec<PathBuf>,
    /// Those that are damaged, and worth less than what `facts` tell of.
    pub(super) worse: Vec<PathBuf>,
}

impl Checked {
    fn has_damage(&self) -> bool {
        self.problems.iter().any(|p| p.severity == Severity::Damage)
    }
}

/// The whole log.
#[derive(Debug)]
pub(super) struct CheckedLog {
    pub(super) inventory: Inventory,
    pub(super) segments: Vec<Checked>,
    /// Problems of segments in their order, and between them.
    pub(super) chain: Vec<Problem>,
    /// Whether retention removed every segment while they were checked.
    is_outrun: bool,
}

pub(super) struct Checker<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) layout: &'a Layout,
    /// Whether the writer lock is held, so that nothing can change.
    pub(super) exclusive: bool,
}

/// What surrounds a segment.
struct Place<'a> {
    previous: Option<&'a Facts>,
    next: Option<&'a Ends>,
    /// Segments behind it when the directories were listed.
    later_count: usize,
}

impl Checker<'_> {
    pub(super) fn run(&self, progress: Progress<'_>) -> Result<CheckedLog> {
        let mut look = 1;
        loop {
            let inventory = Inventory::take(self.storage, self.layout, self.exclusive)?;
            let mut log = self.check_segments(inventory, progress)?;
            let ids = list_ids(self.storage, self.layout)?;
            // What retention removed meanwhile is no longer part of the log.
            let oldest = ids.iter().min().copied().unwrap_or(u32::MAX);
            log.segments.retain(|s| s.facts.ends.index() >= oldest);
            let newest = log.inventory.segments.last().map(Ends::index);
            log.is_outrun = !ids.is_empty() && newest.is_some_and(|newest| newest < oldest);
            let first = log.inventory.segments.first().map(Ends::index);
            let is_early = first.is_some_and(|first| oldest < first);
            let appeared = log.holes().any(|hole| ids.iter().any(|id| hole.contains(id)))
                || (is_early && log.inventory.may_be_written);
            if (appeared || log.is_outrun) && look < LOOKS_MAX {
                pause(look);
                look += 1;
                continue;
            }
            log.check_chain(self.layout);
            return Ok(log);
        }
    }

    fn check_segments(&self, inventory: Inventory, progress: Progress<'_>) -> Result<CheckedLog> {
        let all = &inventory.segments;
        let own = |ends: &Ends| ends.sealed().map_or(ends.file_len, |f| f.durable_bytes);
        let bytes =
            |ends: &Ends| own(ends) + inventory.copies_of(ends.index()).map(own).sum::<u64>();
        let bytes_total = all.iter().map(bytes).sum();
        let mut bytes_done = 0;
        let mut checked: Vec<Checked> = Vec::with_capacity(all.len());
        for (i, ends) in all.iter().enumerate() {
            let segment_id = ends.name.segment_id.as_u64();
            tell(progress, VerifyProgress { segment_id, bytes_done, bytes_total })?;
            let previous = checked.last().map(|c| &c.facts);
            let place = Place {
                previous: previous.filter(|p| p.ends.index() + 1 == ends.index()),
                next: all.get(i + 1),
                later_count: all.len() - i - 1,
            };
            let here = self.settled_check(&inventory, ends, &place)?;
            checked.extend(match here {
                Some(here) => Some(self.check_copies(&inventory, here, &place)?),
                None => None,
            });
            bytes_done += bytes(ends);
        }
        if let Some(last) = all.last() {
            let segment_id = last.name.segment_id.as_u64();
            tell(progress, VerifyProgress { segment_id, bytes_done, bytes_total })?;
        }
        Ok(CheckedLog { inventory, segments: checked, chain: Vec::new(), is_outrun: false })
    }

    /// Checks a segment until nothing is wrong, or the same twice in a row. One that
    /// moves meanwhile is followed to where it is. `None` when it is gone.
    fn settled_check(
        &self,
        inventory: &Inventory,
        ends: &Ends,
        place: &Place<'_>,
    ) -> Result<Option<Checked>> {
        let mut last: Option<Checked> = None;
        let mut ends = ends.clone();
        for look in 1..=LOOKS_MAX {
            let mut checked = match self.check(inventory, &ends, place) {
                Err(error) if is_not_found(&error) => match self.find_now(inventory, &ends)? {
                    Some(now) => {
                        ends = now;
                        last = None;
                        continue;
                    }
                    None => return Ok(None),
                },
                other => other?,
            };
            if checked.problems.is_empty() || self.exclusive {
                return Ok(Some(checked));
            }
            if let Some(last) = &last {
                let same = last.problems == checked.problems;
                checked.problems.retain(|p| last.problems.contains(p));
                checked.is_damaged &= must_rewrite(&checked.problems);
                if same {
                    return Ok(Some(checked));
                }
            }
            last = Some(checked);
            pause(look);
        }
        Ok(last)
    }

    fn find_now(&self, inventory: &Inventory, ends: &Ends) -> Result<Option<Ends>> {
        find_now(self.storage, self.layout, ends.index(), inventory.identity.format)
    }

    /// Checks the compressed copies of a segment as well. If one of them is whole, or
    /// holds more than the file that readers read, the segment is judged by it: a repair
    /// will keep that one.
    fn check_copies(
        &self,
        inventory: &Inventory,
        mut here: Checked,
        place: &Place<'_>,
    ) -> Result<Checked> {
        for copy in inventory.copies_of(here.facts.ends.index()) {
            if copy.path == here.facts.ends.path {
                continue;
            }
            let gone = |error: &_| is_not_found(error);
            let mut copy = match self.check(inventory, copy, place) {
                // Moved on, or removed with its segment.
                Err(error) if gone(&error) => continue,
                copy => copy?,
            };
            if !copy.has_damage() && !here.has_damage() {
                copy.problems.extend(differs(&here.facts, &copy.facts));
            }
            let kept = |checked: &Checked| checked.facts.walk.kept_count();
            let is_better = here.is_damaged && (!copy.has_damage() || kept(&copy) > kept(&here));
            if is_better {
                // Readers read the other one: its problems stay as they are.
                std::mem::swap(&mut here.facts, &mut copy.facts);
                here.worse.push(copy.facts.ends.path);
                here.is_damaged = copy.is_damaged;
                here.is_torn = false;
                here.problems.extend(copy.problems.into_iter().map(|p| of_copy(&here.facts, p)));
            } else if copy.has_damage() {
                here.worse.push(copy.facts.ends.path);
                here.problems.extend(copy.problems.into_iter().map(|p| of_copy(&here.facts, p)));
            } else {
                here.copies.push(copy.facts.ends.path);
            }
        }
        Ok(here)
    }

    fn check(&self, inventory: &Inventory, ends: &Ends, place: &Place<'_>) -> Result<Checked> {
        let stream_id = inventory.identity.stream_id;
        let format = inventory.identity.format;
        let load = |e: &Ends| e.reload(self.storage, format);
        // The claim before the bytes: what it covers is there by then.
        let claim = Claim::load(self.storage, self.layout, stream_id);
        let ends = load(ends)?;
        let next = match place.next.map(|next| (next, load(next))) {
            None => None,
            Some((next, Err(error))) if is_not_found(&error) => self.find_now(inventory, next)?,
            Some((_, loaded)) => Some(loaded?),
        };
        let mut hints = ends.hints(self.storage, stream_id, next.as_ref());
        hints.previous_end = match place.previous {
            Some(previous) => Some(previous.walk.end_offset),
            // Every log begins at 0.
            None => (ends.index() == 0).then_some(0),
        };
        let claimed = claim.body.map(|body| (Position::from_u64(body.durable_position), body));
        hints.claimed = claimed
            .filter(|(position, _)| position.segment_index() == ends.index())
            .map(|(position, body)| (position.end(), body.durable_count));
        let next_is_sealed = next.as_ref().is_some_and(|n| n.sealed().is_some());
        let is_away = !matches!(ends.body, Body::File);
        // Only sealed segments are compressed.
        let must_be_sealed = place.later_count >= 2
            || next_is_sealed
            || is_away
            || inventory.copies_of(ends.index()).next().is_some();
        let mut facts = Facts::gather(self.storage, ends, stream_id, &hints)?;
        let mut durable = u64::MAX;
        if facts.ends.sealed().is_none() && !must_be_sealed {
            durable = self.proven(&facts, next.as_ref(), stream_id)?.max(claim.durable_count());
        }
        let torn = facts.walk.regions.iter().find(|r| r.records.start >= durable).cloned();
        let mut torn_fault = facts.walk.stopped.map(|fault| (facts.walk.end, fault));
        if let Some(region) = &torn {
            // What lies behind is no part of the log, as recovery will see it.
            hints.required_end = Some(region.bytes.start);
            hints.footer_count = None;
            hints.next_first = None;
            hints.claimed = None;
            facts = Facts::gather(self.storage, facts.ends, stream_id, &hints)?;
            torn_fault = Some((region.bytes.start, region.fault));
        }
        let judge = Judge { facts: &facts, durable, must_be_sealed, claim: &claim, inventory };
        let mut problems = judge.problems(place.later_count);
        if let Some((at, fault)) = torn_fault.filter(|_| facts.ends.sealed().is_none()) {
            problems.extend(judge.torn_tail(at, fault, torn.is_some()));
        }
        Ok(Checked {
            is_torn: torn.is_some(),
            is_damaged: must_rewrite(&problems),
            facts,
            problems,
            copies: Vec::new(),
            worse: Vec::new(),
        })
    }

    /// What the records of the unsealed end prove to have been durable.
    fn proven(&self, facts: &Facts, next: Option<&Ends>, stream_id: StreamId) -> Result<u64> {
        let own = facts.walk.proven;
        let Some(next) = next.filter(|_| !facts.walk.regions.is_empty()) else { return Ok(own) };
        let hints = next.hints(self.storage, stream_id, None);
        let next = Facts::gather(self.storage, next.clone(), stream_id, &hints)?;
        Ok(own.max(next.walk.proven))
    }
}

/// Judges one segment.
struct Judge<'a> {
    facts: &'a Facts,
    /// Records below this had been durable.
    durable: u64,
    must_be_sealed: bool,
    claim: &'a Claim,
    inventory: &'a Inventory,
}

impl Judge<'_> {
    fn problem(
        &self,
        kind: ProblemKind,
        offset: u64,
        records: Range<u64>,
        detail: impl Into<String>,
    ) -> Problem {
        Problem {
            kind,
            severity: Severity::Damage,
            path: self.facts.ends.path.clone(),
            offset,
            records,
            detail: detail.into(),
        }
    }

    /// No record is affected: the empty range where the segment begins.
    fn none(&self) -> Range<u64> {
        self.facts.walk.first_offset..self.facts.walk.first_offset
    }

    fn problems(&self, later_count: usize) -> Vec<Problem> {
        let may_be_blank = later_count == 0 && !self.must_be_sealed;
        if self.facts.is_blank() && self.facts.walk.regions.is_empty() && may_be_blank {
            return self.blank().into_iter().collect();
        }
        if let Body::Cold(index) = &self.facts.ends.body {
            return index.as_ref().err().map(|error| self.cold(error)).into_iter().collect();
        }
        let mut problems = Vec::new();
        problems.extend(self.size());
        problems.extend(self.header());
        problems.extend(self.name());
        self.flaws(&mut problems);
        self.regions(&mut problems);
        self.footer(&mut problems);
        problems
    }

    /// The newest file may never have been used; one of the wrong length never will.
    fn blank(&self) -> Option<Problem> {
        let ends = &self.facts.ends;
        if is_segment_len(ends.file_len) || self.inventory.may_be_written {
            return None;
        }
        let detail = "never used; the next writer removes it";
        let mut problem = self.problem(ProblemKind::Leftover, 0, self.none(), detail);
        problem.severity = Severity::Notice;
        Some(problem)
    }

    /// Nobody here knows what the object store holds, so nothing is given up.
    fn cold(&self, error: &FormatError) -> Problem {
        let detail = format!("the index of a segment in the object store is damaged: {error}");
        self.problem(ProblemKind::Copy, 0, self.facts.records(), detail)
    }

    /// What is wrong with a compressed segment besides its records.
    fn flaws(&self, problems: &mut Vec<Problem>) {
        let Some(compressed) = self.facts.ends.compressed() else { return };
        if let Some(flaw) = &compressed.index_flaw {
            // Readers refuse such a file as a whole.
            let records = self.facts.records();
            problems.push(self.problem(ProblemKind::Copy, flaw.offset, records, &flaw.detail));
        }
        for (flaw, records) in &self.facts.refused {
            let records = records.clone();
            problems.push(self.problem(ProblemKind::Copy, flaw.offset, records, &flaw.detail));
        }
        if let Some(flaw) = &compressed.footer_flaw {
            problems.push(self.problem(
                ProblemKind::Footer,
                flaw.offset,
                self.none(),
                &flaw.detail,
            ));
        }
    }

    fn size(&self) -> Option<Problem> {
        let ends = &self.facts.ends;
        let should_be = u64::from(ends.segment_bytes);
        if ends.file_len == should_be {
            return None;
        }
        let detail = match is_segment_len(ends.file_len) {
            false => format!("the file has {} bytes, which is not a segment's size", ends.file_len),
            true => format!("the file has {} bytes instead of {should_be}", ends.file_len),
        };
        // Readers refuse such a file as a whole.
        let offset = ends.file_len.min(should_be);
        Some(self.problem(ProblemKind::Size, offset, self.facts.records(), detail))
    }

    fn header(&self) -> Option<Problem> {
        if let Some(compressed) = self.facts.ends.compressed() {
            // A damaged frame is named with the records in it, if it has some.
            let is_named = self.facts.walk.regions.first().is_some_and(|r| r.bytes.start == START);
            let detail = "the frame with the header is damaged";
            return (compressed.header.is_none() && !is_named)
                .then(|| self.problem(ProblemKind::Header, 0, self.none(), detail));
        }
        let detail = match &self.facts.ends.header {
            Ok(Some(_)) => return None,
            Ok(None) => "the header is missing".to_owned(),
            Err(error) => format!("the header is damaged: {error}"),
        };
        let mut problem = self.problem(ProblemKind::Header, 0, self.none(), detail);
        if self.durable <= self.facts.walk.first_offset {
            // Torn with everything behind it.
            problem.kind = ProblemKind::TornTail;
            problem.severity = Severity::Notice;
        }
        Some(problem)
    }

    fn name(&self) -> Option<Problem> {
        let ends = &self.facts.ends;
        (ends.given != ends.name).then(|| {
            let detail = match ends.compressed().and_then(|c| c.index.as_ref()) {
                Some(index) => format!("by its index it is {}", WarmFileName::of(&index.summary)),
                None => format!("by its header it is {}", ends.name),
            };
            self.problem(ProblemKind::Name, 0, self.facts.records(), detail)
        })
    }

    fn regions(&self, problems: &mut Vec<Problem>) {
        for region in &self.facts.walk.regions {
            let kind = match region.fault {
                Fault::Sequence { .. } => ProblemKind::Sequence,
                _ => ProblemKind::Record,
            };
            let mut detail = region.fault.to_string();
            if !region.is_exact {
                detail.push_str("; how many records were here is not certain");
            }
            let start = self.facts.place_of(region.bytes.start);
            problems.push(self.problem(kind, start, region.records.clone(), detail));
        }
    }

    fn footer(&self, problems: &mut Vec<Problem>) {
        let ends = &self.facts.ends;
        let slot = self.facts.footer_place();
        if ends.compressed().is_some() && ends.sealed().is_none() {
            // Lost with the index, which has been named.
            return;
        }
        // A file of the wrong length has no footer to speak of.
        if !is_segment_len(ends.file_len) && ends.sealed().is_none() {
            return;
        }
        match &ends.footer {
            Ok(Some(_)) => self.counters(slot, problems),
            Ok(None) if !self.must_be_sealed => {}
            Ok(None) => {
                let detail = "the footer is missing";
                problems.push(self.problem(ProblemKind::Footer, slot, self.none(), detail));
            }
            Err(error) => {
                let detail = format!("the footer is damaged: {error}");
                let mut problem = self.problem(ProblemKind::Footer, slot, self.none(), detail);
                if !self.must_be_sealed && !self.is_closed() {
                    // Being written when the machine stopped; recovery writes it again.
                    problem.severity = Severity::Notice;
                }
                problems.push(problem);
            }
        }
    }

    fn is_closed(&self) -> bool {
        use crate::format::WatermarkState::Closed;
        self.claim.body.is_none_or(|body| body.state == Closed)
    }

    fn counters(&self, slot: u64, problems: &mut Vec<Problem>) {
        let (ends, walk) = (&self.facts.ends, &self.facts.walk);
        let Some(footer) = ends.sealed() else { return };
        let explained = !problems.is_empty();
        let mut wrong = Vec::new();
        let count = walk.end_offset - walk.first_offset;
        if footer.record_count != count {
            wrong.push(format!("{} records, there are {count}", footer.record_count));
        }
        let last = walk.last_timestamp_ms.unwrap_or(0);
        if !explained && footer.last_timestamp_ms != last {
            wrong.push(format!("last timestamp {}, it is {last}", footer.last_timestamp_ms));
        }
        if footer.flags & FOOTER_SEALED == 0 {
            wrong.push("not sealed".to_owned());
        }
        if ends.format == SegmentFormat::Compact && !explained {
            let last_id =
                ends.meta(self.inventory.identity.stream_id, 0).record_id(walk.last_position);
            if footer.segment_id.map(|id| id.as_u32()) != Some(ends.index()) {
                wrong.push("another segment".to_owned());
            }
            if footer.last_record_id != Some(last_id) {
                wrong.push(format!("another last record than {last_id}"));
            }
        }
        if !wrong.is_empty() {
            let detail = format!("the footer says: {}", wrong.join("; "));
            problems.push(self.problem(ProblemKind::Counters, slot, self.none(), detail));
        }
        let matches = self.facts.crc64 == Some(footer.segment_crc64);
        if !explained && !matches {
            let detail = "the checksum of the whole segment does not match";
            problems.push(self.problem(ProblemKind::SegmentChecksum, 0, self.none(), detail));
        }
        if let Some(at) = self.facts.dirty_at {
            let none = walk.end_offset..walk.end_offset;
            let detail = "bytes behind the last record are not zero";
            problems.push(self.problem(ProblemKind::Beyond, at, none, detail));
        }
    }

    /// What a crash left behind the last record. While a writer may run, a record
    /// without its first word is one that is being written.
    fn torn_tail(&self, at: u32, fault: Fault, records_follow: bool) -> Option<Problem> {
        if fault == Fault::Nothing && !records_follow && self.inventory.may_be_written {
            return None;
        }
        let end = self.facts.walk.end_offset;
        let detail = format!("torn tail, never durable ({fault}); the next writer removes it");
        let mut problem = self.problem(ProblemKind::TornTail, u64::from(at), end..end, detail);
        problem.severity = Severity::Notice;
        Some(problem)
    }
}

impl CheckedLog {
    /// Ids that are missing between segments.
    fn holes(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.segments.windows(2).filter_map(|pair| {
            let (from, to) = (pair[0].facts.ends.index() + 1, pair[1].facts.ends.index());
            (from < to).then_some(from..to)
        })
    }

    fn check_chain(&mut self, layout: &Layout) {
        let mut chain = Vec::new();
        for (i, checked) in self.segments.iter().enumerate() {
            if let Some(previous) = i.checked_sub(1).map(|i| &self.segments[i]) {
                chain.extend(between(layout, previous, checked));
            }
            chain.extend(checked.problems.iter().cloned());
        }
        chain.extend(self.missing_end(layout));
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

    fn missing_end(&self, layout: &Layout) -> Option<Problem> {
        let records = self.missing_records()?;
        let next = self.segments.last().map_or(0, |last| last.facts.ends.index() + 1);
        Some(Problem {
            kind: ProblemKind::MissingRecords,
            severity: Severity::Damage,
            path: pattern(layout, next),
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

/// Path of a segment that is not there.
fn pattern(layout: &Layout, segment_index: u32) -> PathBuf {
    layout.segments_dir().join(format!("{segment_index:020}_*.seg"))
}

/// What is wrong between two segments.
fn between(layout: &Layout, previous: &Checked, here: &Checked) -> Option<Problem> {
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
            1 => "the segment file is missing".to_owned(),
            n => format!("{n} segment files from here on are missing"),
        };
        let path = pattern(layout, missing_from);
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

/// Whether a segment with these problems must be written anew.
fn must_rewrite(problems: &[Problem]) -> bool {
    problems.iter().any(|p| p.severity == Severity::Damage && p.kind != ProblemKind::Name)
}

/// A problem of a copy that nobody reads: no record is affected.
fn of_copy(facts: &Facts, problem: Problem) -> Problem {
    let none = facts.walk.first_offset..facts.walk.first_offset;
    Problem { kind: ProblemKind::Copy, records: none, ..problem }
}

/// Why a copy is not one of this segment, although both are in order.
fn differs(file: &Facts, copy: &Facts) -> Option<Problem> {
    let known = |facts: &Facts| (facts.crc64, facts.walk.first_offset, facts.ends.name.base_offset);
    (known(file) != known(copy)).then(|| Problem {
        kind: ProblemKind::Copy,
        severity: Severity::Damage,
        path: copy.ends.path.clone(),
        offset: 0,
        records: file.walk.first_offset..file.walk.first_offset,
        detail: format!("it is not a copy of {}", file.ends.given),
    })
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
pub(super) fn join(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges.filter(|r| !r.is_empty()) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}
