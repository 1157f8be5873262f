//! What is wrong with one segment, from the facts about it.

use std::ops::Range;

use super::ends::{Body, is_segment_len};
use super::facts::Facts;
use super::inventory::{Claim, Inventory};
use super::report::{Problem, ProblemKind, Severity};
use super::walk::Fault;
use crate::format::{FOOTER_SEALED, FormatError, SEGMENT_HEADER_LEN, SegmentFormat, WarmFileName};

const START: u32 = SEGMENT_HEADER_LEN as u32;

/// Judges one segment.
pub(super) struct Judge<'a> {
    pub(super) facts: &'a Facts,
    /// Records below this had been durable.
    pub(super) durable: u64,
    pub(super) must_be_sealed: bool,
    pub(super) claim: &'a Claim,
    pub(super) inventory: &'a Inventory,
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

    pub(super) fn problems(&self, later_count: usize) -> Vec<Problem> {
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
    pub(super) fn torn_tail(&self, at: u32, fault: Fault, records_follow: bool) -> Option<Problem> {
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
