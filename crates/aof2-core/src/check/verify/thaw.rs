//! Walking the records of a compressed segment, frame by frame, across damaged frames.
//!
//! The index says which records a damaged frame held. Without it the records behind the
//! frame tell, or the totals of footer and next header, as in a segment file.

use std::ops::Range;

use super::compressed::{Compressed, Content, Flaw, Frame};
use super::walk::{Fault, Hints, Region, Walk, fit_counts, total_end, walk_part};
use crate::error::Result;
use crate::format::{Crc64, RecordCodec, SEGMENT_HEADER_LEN, SegmentFormat};

const START: u32 = SEGMENT_HEADER_LEN as u32;

/// What the frames of a compressed segment hold.
#[derive(Debug)]
pub(super) struct Thawed {
    pub(super) walk: Walk,
    /// Checksum over all frames, if they are intact.
    pub(super) crc64: Option<u64>,
    /// Frames that are intact and that readers refuse, with the records in them.
    pub(super) refused: Vec<(Flaw, Range<u64>)>,
}

/// Decompresses and walks every frame.
pub(super) fn thaw(compressed: &Compressed, codec: &RecordCodec, hints: &Hints) -> Result<Thawed> {
    let mut thaw = Thaw::new(compressed, codec, hints);
    let mut crc = Some(Crc64::new());
    let mut refused = Vec::new();
    for frame in &compressed.frames {
        let (bytes, is_refused) = match compressed.read(frame)? {
            Content::Intact(bytes) => (bytes, false),
            Content::Refused(bytes) => (bytes, true),
            Content::Damaged => {
                crc = None;
                thaw.pass_over(frame, Fault::Frame);
                continue;
            }
        };
        if let Some(crc) = &mut crc {
            crc.update(&bytes);
        }
        let from = thaw.take(frame, &bytes);
        if is_refused {
            let detail = "the seek table has another checksum for this frame".to_owned();
            let flaw = Flaw { offset: frame.compressed_offset, detail };
            refused.push((flaw, from..thaw.offset));
        }
    }
    if compressed.is_cut {
        thaw.pass_over_end();
    }
    Ok(Thawed { walk: thaw.finish(), crc64: crc.map(|crc| crc.finish()), refused })
}

struct Thaw<'a> {
    codec: &'a RecordCodec,
    hints: &'a Hints,
    walk: Walk,
    /// Whether `walk.first_offset` is certain.
    is_start_known: bool,
    offset: u64,
    at: u32,
    /// Damaged frames whose records the next intact one, or the end, will tell.
    open: Option<(u32, Fault)>,
}

impl<'a> Thaw<'a> {
    fn new(compressed: &Compressed, codec: &'a RecordCodec, hints: &'a Hints) -> Self {
        let by_end = match (hints.next_first, hints.footer_count) {
            (Some(next), Some(count)) => next.checked_sub(count),
            _ => None,
        };
        let known = compressed.first_offset(codec).or(hints.previous_end).or(by_end);
        let offset = known.unwrap_or(0);
        let walk = Walk::new(offset, START);
        let is_start_known = known.is_some();
        Self { codec, hints, walk, is_start_known, offset, at: START, open: None }
    }

    fn is_compact(&self) -> bool {
        self.codec.format() == SegmentFormat::Compact
    }

    /// Adds what an intact frame holds. Returns the offset of its first record.
    fn take(&mut self, frame: &Frame, bytes: &[u8]) -> u64 {
        let hints = Hints {
            previous_end: (self.is_start_known && self.open.is_none()).then_some(self.offset),
            header_first: Some(self.offset),
            next_first: frame.offsets.as_ref().map(|offsets| offsets.end),
            required_end: Some(frame.bytes.end),
            ..Hints::default()
        };
        let part = walk_part(self.codec, frame.bytes.start, bytes, &hints);
        if part.last_position == 0 {
            // The header alone.
            self.at = frame.bytes.end.max(self.at);
            return self.offset;
        }
        if !self.is_start_known && self.open.is_none() {
            self.start_at(part.first_offset);
        }
        if self.open.is_some() && part.first_offset >= self.offset {
            if !self.is_start_known {
                self.start_at(part.first_offset.saturating_sub(1));
            }
            self.close(frame.bytes.start, part.first_offset, self.is_start_known);
            self.is_start_known = true;
        }
        if part.first_offset != self.offset {
            let found = part.first_offset;
            self.pass_over(frame, Fault::Sequence { expected: self.offset, found });
            return self.offset;
        }
        let from = self.offset;
        self.join(part);
        from
    }

    fn start_at(&mut self, offset: u64) {
        self.walk.first_offset = offset;
        self.offset = offset;
    }

    fn join(&mut self, part: Walk) {
        let walk = &mut self.walk;
        walk.regions.extend(part.regions);
        walk.gaps.extend(part.gaps);
        walk.intact_count += part.intact_count;
        walk.first_timestamp_ms = walk.first_timestamp_ms.or(part.first_timestamp_ms);
        walk.last_timestamp_ms = walk.last_timestamp_ms.max(part.last_timestamp_ms);
        walk.last_position = part.last_position;
        walk.proven = walk.proven.max(part.proven);
        self.is_start_known = true;
        self.offset = part.end_offset;
        self.at = part.end;
    }

    /// Counts a frame as lost.
    fn pass_over(&mut self, frame: &Frame, fault: Fault) {
        let start = frame.bytes.start.max(START);
        match &frame.offsets {
            Some(offsets) => {
                self.offset = offsets.start.max(self.offset);
                let end = offsets.end.max(self.offset);
                self.add_region(start..frame.bytes.end, end, fault, true);
                self.is_start_known = true;
            }
            // Counted as one record until the totals tell.
            None if self.is_compact() => {
                self.add_region(start..frame.bytes.end, self.offset + 1, fault, false);
            }
            None => {
                self.open.get_or_insert((start, fault));
                self.at = frame.bytes.end;
            }
        }
    }

    /// Where the frames end although the segment did not.
    fn pass_over_end(&mut self) {
        let claimed = self.hints.claimed.map(|(end, _)| end);
        let end = self.hints.required_end.or(claimed).filter(|end| *end > self.at);
        let Some(end) = end else { return };
        let bytes = self.at..end;
        let frame = Frame::lost(bytes);
        self.pass_over(&frame, Fault::Frame);
    }

    fn close(&mut self, end: u32, next_offset: u64, is_exact: bool) {
        let Some((start, fault)) = self.open.take() else { return };
        self.add_region(start..end, next_offset, fault, true);
        if let Some(region) = self.walk.regions.last_mut() {
            region.is_exact = is_exact;
        }
    }

    fn add_region(&mut self, bytes: Range<u32>, next: u64, fault: Fault, is_chained: bool) {
        self.at = bytes.end;
        if bytes.is_empty() {
            return;
        }
        self.walk.last_position = bytes.start;
        self.walk.regions.push(Region {
            bytes,
            records: self.offset..next,
            fault,
            is_exact: true,
            is_padding: false,
            is_chained,
        });
        self.offset = next;
    }

    fn finish(mut self) -> Walk {
        if self.open.is_some() {
            let claimed = self.hints.claimed.filter(|&(end, _)| end == self.at);
            let until = total_end(self.hints, &self.walk).or(claimed.map(|(_, offset)| offset));
            let until = until.filter(|&until| until >= self.offset);
            let is_exact = until.is_some() && self.is_start_known;
            self.close(self.at, until.unwrap_or(self.offset + 1), is_exact);
        }
        self.walk.end = self.at;
        self.walk.end_offset = self.offset;
        if self.is_compact() {
            fit_counts(&mut self.walk, self.hints);
        }
        self.walk
    }
}
