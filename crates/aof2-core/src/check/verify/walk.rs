//! Walking the records of one segment across damage: which stretches of bytes hold
//! no valid record, and which records were there.
//!
//! A record that does not validate may still have its right length. If so, the next
//! record starts where it says, and exactly one record is damaged. Otherwise the
//! next valid record behind it is searched for. In the full format that record says
//! how many are missing. In the compact format only the totals of footer and next
//! header tell; see [`fit_counts`].

use std::fmt;
use std::ops::Range;

use crate::format::{
    DecodedRecord, RECORD_ALIGN, RecordCodec, RecordFault, RecordFlags, RecordHead,
    SEGMENT_HEADER_LEN, SegmentFormat,
};

const START: usize = SEGMENT_HEADER_LEN;

/// Bytes that the searches in one segment may checksum for every byte of it. Much
/// more than a reader allows itself: here giving up means losing intact records.
const CHECKSUM_BUDGET_FACTOR: usize = 256;

/// What is known about a segment besides its records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    /// Logical offset behind the previous segment.
    pub(super) previous_end: Option<u64>,
    /// Logical offset of the next segment's first record.
    pub(super) next_first: Option<u64>,
    /// Logical offset of the first record by this segment's header.
    pub(super) header_first: Option<u64>,
    /// Records by this segment's footer.
    pub(super) footer_count: Option<u64>,
    /// Where the records end: by the footer, or by the next segment's name.
    pub(super) required_end: Option<u32>,
    /// Byte and logical offset up to which the watermark file claims records here.
    pub(super) claimed: Option<(u32, u64)>,
}

/// Why bytes are not the record that should be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Record(RecordFault),
    /// The frame of a compressed segment that held the records does not decompress.
    Frame,
    /// Zeros, or the end of the file.
    Nothing,
    Sequence {
        expected: u64,
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(fault) => fault.fmt(f),
            Self::Frame => f.write_str("a compressed frame is damaged"),
            Self::Nothing => f.write_str("nothing where a record should be"),
            Self::Sequence { expected, found } => {
                write!(f, "record {found} stands where record {expected} should be")
            }
        }
    }
}

/// A stretch of bytes without a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) bytes: Range<u32>,
    pub(super) records: Range<u64>,
    pub(super) fault: Fault,
    /// Whether `records` is certain.
    pub(super) is_exact: bool,
    /// Whether only padding is wrong: the payload is intact.
    pub(super) is_padding: bool,
    /// Whether the number of records is known without counting the others: it is one
    /// record whose length is still right, or the index of a compressed segment tells.
    pub(super) is_chained: bool,
}

/// What a walk found.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    pub(super) first_offset: u64,
    /// Logical offset behind the last record or region.
    pub(super) end_offset: u64,
    /// Byte behind the last record or region.
    pub(super) end: u32,
    pub(super) regions: Vec<Region>,
    pub(super) gaps: Vec<Range<u64>>,
    /// Valid records that are not gaps.
    pub(super) intact_count: u64,
    pub(super) first_timestamp_ms: Option<u64>,
    pub(super) last_timestamp_ms: Option<u64>,
    /// Start of the last valid record or region, 0 if there is none.
    pub(super) last_position: u32,
    /// Every record below this logical offset had been durable, by what the valid
    /// records say.
    pub(super) proven: u64,
    /// Why the walk ended although bytes that are not zero follow.
    pub(super) stopped: Option<Fault>,
}

impl Walk {
    pub(super) fn new(first_offset: u64, start: u32) -> Self {
        Self {
            first_offset,
            end_offset: first_offset,
            end: start,
            regions: Vec::new(),
            gaps: Vec::new(),
            intact_count: 0,
            first_timestamp_ms: None,
            last_timestamp_ms: None,
            last_position: 0,
            proven: 0,
            stopped: None,
        }
    }

    /// Records that a repair keeps.
    pub(super) fn kept_count(&self) -> u64 {
        self.intact_count + self.regions.iter().filter(|r| r.is_padding).count() as u64
    }

    /// Whether there is nothing but gaps, at least one.
    pub(super) fn is_only_gaps(&self) -> bool {
        self.intact_count == 0 && self.regions.is_empty() && self.last_position != 0
    }
}

/// Walks the records of a part of a segment: `space` is what stands from byte `base` on,
/// up to `hints.required_end`.
pub(super) fn walk_part(codec: &RecordCodec, base: u32, space: &[u8], hints: &Hints) -> Walk {
    Walker::new(codec, base, space, hints, true).run()
}

/// Walks the records in `space`, a segment's bytes up to where its records may end.
pub(super) fn walk(codec: &RecordCodec, space: &[u8], hints: &Hints) -> Walk {
    let by_length = Walker::new(codec, 0, space, hints, true).run();
    let adds_up = |w: &Walk| total_end(hints, w).is_none_or(|total| total == w.end_offset);
    let exact = adds_up(&by_length) && by_length.regions.iter().all(|r| r.is_exact);
    if codec.format() == SegmentFormat::Full || exact {
        return by_length;
    }
    // A damaged length may lead to a later record just as well as a right one. The
    // totals decide; without them the length is believed, because what a search finds
    // in between may be payload.
    let by_search = Walker::new(codec, 0, space, hints, false).run();
    let better = by_search.intact_count > by_length.intact_count
        && adds_up(&by_search)
        && by_search.regions.iter().all(|r| r.is_exact);
    if better { by_search } else { by_length }
}

pub(super) fn total_end(hints: &Hints, walk: &Walk) -> Option<u64> {
    hints.footer_count.map(|n| walk.first_offset.saturating_add(n)).or(hints.next_first)
}

/// Bytes of the shortest gap, which is also the shortest record.
pub(super) fn gap_len_min(codec: &RecordCodec) -> u32 {
    codec.record_len(RECORD_ALIGN) as u32
}

struct Walker<'a> {
    codec: &'a RecordCodec,
    /// Byte of the segment where `space` starts.
    base: usize,
    space: &'a [u8],
    hints: &'a Hints,
    trusts_lengths: bool,
    budget: usize,
    at: usize,
    offset: u64,
    /// Whether nothing vouches for how many records were lost at the start.
    is_start_guessed: bool,
    walk: Walk,
}

impl<'a> Walker<'a> {
    fn new(
        codec: &'a RecordCodec,
        base: u32,
        space: &'a [u8],
        hints: &'a Hints,
        trusts_lengths: bool,
    ) -> Self {
        let base = base as usize;
        let start = base.max(START);
        let mut walker = Self {
            codec,
            base,
            space,
            hints,
            trusts_lengths,
            budget: space.len().saturating_mul(CHECKSUM_BUDGET_FACTOR),
            at: start,
            offset: 0,
            is_start_guessed: false,
            walk: Walk::new(0, start as u32),
        };
        walker.offset = walker.first_offset();
        walker.walk.first_offset = walker.offset;
        walker
    }

    fn rest(&self, at: usize) -> &'a [u8] {
        self.space.get(at - self.base..).unwrap_or_default()
    }

    /// The first record's own word, or what the surroundings say.
    fn first_offset(&mut self) -> u64 {
        let hints = self.hints;
        let by_end = match (hints.next_first, hints.footer_count) {
            (Some(next), Some(count)) => next.checked_sub(count),
            _ => None,
        };
        if self.codec.format() == SegmentFormat::Compact {
            return hints.header_first.or(hints.previous_end).or(by_end).unwrap_or(0);
        }
        if let Ok(Some(record)) = self.codec.decode(self.rest(self.at)) {
            return record.head.logical_offset.unwrap_or(0);
        }
        match self.search(self.at + RECORD_ALIGN, 0) {
            Some((at, head)) => {
                let valid = head.logical_offset.unwrap_or(0);
                let known = hints.previous_end.or(by_end).filter(|&first| first <= valid);
                known.unwrap_or_else(|| self.guess_first_offset(at, valid))
            }
            None => hints.previous_end.or(by_end).unwrap_or(0),
        }
    }

    /// What the damaged first record says of itself, if so many records fit in front of
    /// the first valid one; otherwise one record was there at least.
    fn guess_first_offset(&mut self, valid_at: usize, valid: u64) -> u64 {
        let fitting = ((valid_at - self.at) / gap_len_min(self.codec) as usize) as u64;
        let head = self.codec.peek(self.rest(self.at)).ok().flatten();
        let said = head.and_then(|head| head.logical_offset);
        let first = said.filter(|&first| first < valid && valid - first <= fitting);
        self.is_start_guessed = first.is_none_or(|first| valid - first > 1);
        first.unwrap_or(valid.saturating_sub(1))
    }

    fn run(mut self) -> Walk {
        loop {
            if self.hints.required_end.is_some_and(|end| self.at >= end as usize) {
                break;
            }
            match self.valid_here() {
                Ok(record) => self.take(&record),
                Err(fault) => {
                    if !self.pass_over(fault) {
                        break;
                    }
                }
            }
        }
        self.walk.end = self.at as u32;
        self.walk.end_offset = self.offset;
        if let Some(first) = self.walk.regions.first_mut().filter(|_| self.is_start_guessed) {
            first.is_exact = false;
        }
        if self.codec.format() == SegmentFormat::Compact {
            fit_counts(&mut self.walk, self.hints);
        }
        self.walk
    }

    fn valid_here(&self) -> Result<DecodedRecord<'a>, Fault> {
        let record = match self.codec.decode(self.rest(self.at)) {
            Ok(Some(record)) => record,
            Ok(None) => return Err(Fault::Nothing),
            Err(fault) => return Err(Fault::Record(fault)),
        };
        match record.head.logical_offset {
            Some(found) if found != self.offset => {
                Err(Fault::Sequence { expected: self.offset, found })
            }
            _ => Ok(record),
        }
    }

    fn take(&mut self, record: &DecodedRecord<'_>) {
        let head = &record.head;
        self.walk.last_position = self.at as u32;
        self.at += head.record_len as usize;
        if let Some(gap) = record.gap() {
            let end = self.offset.saturating_add(gap.lost_count);
            if gap.lost_count > 0 {
                self.walk.gaps.push(self.offset..end);
            }
            self.offset = end;
            return;
        }
        let is_gap = head.flags.contains(RecordFlags::GAP);
        if let Some(lag) = head.durable_lag.filter(|&lag| lag != u32::MAX && !is_gap) {
            let proven = self.offset.saturating_sub(u64::from(lag));
            self.walk.proven = self.walk.proven.max(proven);
        }
        self.note_timestamp(head.timestamp_ms);
        self.walk.intact_count += 1;
        self.offset = self.offset.saturating_add(1);
    }

    fn note_timestamp(&mut self, timestamp_ms: u64) {
        self.walk.first_timestamp_ms.get_or_insert(timestamp_ms);
        self.walk.last_timestamp_ms = self.walk.last_timestamp_ms.max(Some(timestamp_ms));
    }

    /// Moves behind what is not a valid record. False at the end of the records.
    fn pass_over(&mut self, fault: Fault) -> bool {
        if fault == Fault::Record(RecordFault::Padding) && self.sequence_fits() {
            let Ok(Some(head)) = self.codec.peek(self.rest(self.at)) else { return false };
            // The record itself is intact, and will be readable again after a repair.
            self.note_timestamp(head.timestamp_ms);
            self.add_region(self.at + head.record_len as usize, self.offset + 1, fault, true);
            return true;
        }
        let by_length = if self.trusts_lengths { self.confirmed_end_by_length() } else { None };
        if let Some(end) = by_length {
            self.add_region(end, self.offset + 1, fault, true);
            return true;
        }
        let nearest = self.at + gap_len_min(self.codec) as usize;
        if let Some((at, head)) = self.search(nearest, self.offset) {
            let next = head.logical_offset.unwrap_or(self.offset + 1);
            self.add_region(at, next, fault, false);
            return true;
        }
        self.pass_over_end(fault)
    }

    /// Nothing valid follows. If records are known to have been here, they are lost.
    fn pass_over_end(&mut self, fault: Fault) -> bool {
        let claimed = self.hints.claimed.filter(|&(end, _)| end as usize > self.at);
        let end = self.hints.required_end.or(claimed.map(|(end, _)| end));
        let Some(end) = end.map(|end| end as usize).filter(|&end| end > self.at) else {
            let dirty = self.rest(self.at).iter().any(|&byte| byte != 0);
            self.walk.stopped = dirty.then_some(fault);
            return false;
        };
        let until = total_end(self.hints, &self.walk)
            .or(claimed.map(|(_, offset)| offset))
            .filter(|&until| until >= self.offset);
        self.add_region(end, until.unwrap_or(self.offset + 1), fault, false);
        if let (Some(region), None) = (self.walk.regions.last_mut(), until) {
            region.is_exact = false;
        }
        // More than was claimed may have been appended, but none of it is left.
        self.hints.required_end.is_some()
    }

    fn add_region(&mut self, end: usize, next_offset: u64, fault: Fault, is_chained: bool) {
        let is_padding =
            fault == Fault::Record(RecordFault::Padding) && next_offset == self.offset + 1;
        self.walk.regions.push(Region {
            bytes: self.at as u32..end as u32,
            records: self.offset..next_offset,
            fault,
            is_exact: true,
            is_padding,
            is_chained,
        });
        self.walk.last_position = self.at as u32;
        self.at = end;
        self.offset = next_offset;
    }

    fn sequence_fits(&self) -> bool {
        let head = self.codec.peek(self.rest(self.at)).ok().flatten();
        head.is_some_and(|h| h.logical_offset.is_none_or(|found| found == self.offset))
    }

    fn end_by_length(&self) -> Option<usize> {
        let head = self.codec.peek(self.rest(self.at)).ok().flatten()?;
        Some(self.at + head.record_len as usize)
    }

    /// Where this record's own length says that it ends, if the next record or the
    /// known end is there.
    fn confirmed_end_by_length(&self) -> Option<usize> {
        let end = self.end_by_length()?;
        let at_end = self.hints.required_end.or(self.hints.claimed.map(|(end, _)| end));
        if at_end == Some(end as u32) {
            let total = total_end(self.hints, &self.walk);
            let one_is_left = total.is_none_or(|total| total == self.offset + 1);
            let full = self.codec.format() == SegmentFormat::Full;
            return (one_is_left || !full).then_some(end);
        }
        let next = self.codec.decode(self.rest(end)).ok().flatten()?;
        let follows = next.head.logical_offset.is_none_or(|found| found == self.offset + 1);
        follows.then_some(end)
    }

    /// The first valid record at or behind `from`, in the full format one whose
    /// logical offset is at least `expected`.
    fn search(&mut self, from: usize, expected: u64) -> Option<(usize, RecordHead)> {
        let mut at = from.next_multiple_of(RECORD_ALIGN);
        while at + RECORD_ALIGN <= self.base + self.space.len() {
            let rest = self.rest(at);
            if let Ok(Some(head)) = self.codec.peek(rest) {
                let plausible = head.logical_offset.is_none_or(|offset| {
                    let possible = expected.saturating_add(self.space.len() as u64);
                    offset >= expected && (expected == 0 || offset <= possible)
                });
                if plausible {
                    if self.codec.verify(rest, &head).is_ok() {
                        return Some((at, head));
                    }
                    self.budget = self.budget.checked_sub(head.payload_len as usize)?;
                }
            }
            at += RECORD_ALIGN;
        }
        None
    }
}

/// Compact records are counted, and a region found by searching counts as one
/// until here. If the totals say that more are missing, the last such region gets
/// the rest, and with several of them none is certain.
pub(super) fn fit_counts(walk: &mut Walk, hints: &Hints) {
    let total = total_end(hints, walk).or_else(|| {
        let at_end = |&(end, _): &(u32, u64)| end == walk.end;
        hints.claimed.filter(at_end).map(|(_, offset)| offset)
    });
    let uncertain = walk.regions.iter().filter(|r| !r.is_chained).count();
    let Some(last) = walk.regions.iter().rposition(|r| !r.is_chained) else { return };
    let is_exact = uncertain == 1 && total.is_some();
    for region in walk.regions.iter_mut().filter(|r| !r.is_chained) {
        region.is_exact = is_exact;
    }
    let Some(total) = total else { return };
    let start = walk.regions[last].records.start;
    let counted = walk.regions[last].records.end;
    let behind = walk.end_offset - counted;
    let end = total.saturating_sub(behind).max(start);
    let moved = |offset: u64| offset - counted + end;
    walk.regions[last].records.end = end;
    for region in &mut walk.regions[last + 1..] {
        region.records = moved(region.records.start)..moved(region.records.end);
    }
    for gap in walk.gaps.iter_mut().filter(|gap| gap.start > start) {
        *gap = moved(gap.start)..moved(gap.end);
    }
    walk.end_offset = end + behind;
}
