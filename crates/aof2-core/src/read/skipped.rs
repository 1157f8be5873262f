//! What a scan passed over: how many records, which, and why.

use std::ops::Range;

/// Ranges that are remembered. A scan of any log needs little memory, however often it
/// was damaged; the count stays exact.
const RANGES_MAX: usize = 1024;

/// Why a scan passed over records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// They do not validate, and the scan was told to go on behind them.
    Damaged,
    /// They were lost earlier, and a repair left a gap in their place.
    Lost,
}

/// Consecutive records that a scan passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRange {
    /// Their logical offsets.
    pub offsets: Range<u64>,
    /// Why they were passed over.
    pub reason: SkipReason,
}

impl SkippedRange {
    fn len(&self) -> u64 {
        self.offsets.end - self.offsets.start
    }
}

/// Counts and remembers it. Readers only go forward, so ranges come in order; one may be
/// told again as part of a longer one.
#[derive(Debug)]
pub(crate) struct Skipped {
    /// What was asked for: the rest of a range is not missed by anybody.
    wanted: Range<u64>,
    damaged: u64,
    lost: u64,
    ranges: Vec<SkippedRange>,
}

impl Default for Skipped {
    fn default() -> Self {
        Self { wanted: 0..u64::MAX, damaged: 0, lost: 0, ranges: Vec::new() }
    }
}

impl Skipped {
    pub(crate) fn want_from(&mut self, start: u64) {
        self.wanted.start = start;
    }

    pub(crate) fn want_until(&mut self, end: u64) {
        self.wanted.end = end;
    }

    pub(crate) fn count(&self) -> u64 {
        self.damaged + self.lost
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn ranges(&self) -> &[SkippedRange] {
        &self.ranges
    }

    pub(crate) fn note(&mut self, offsets: Range<u64>, reason: SkipReason) {
        let mut start = offsets.start.max(self.wanted.start);
        let end = offsets.end.min(self.wanted.end);
        if let Some(last) = self.ranges.last() {
            if start <= last.offsets.start && last.offsets.end <= end {
                // Told before, as a part of this.
                let (len, reason) = (last.len(), last.reason);
                *self.counter(reason) -= len;
                self.ranges.pop();
            } else {
                start = start.max(last.offsets.end);
            }
        }
        if start >= end {
            return;
        }
        *self.counter(reason) += end - start;
        match self.ranges.last_mut() {
            Some(last) if last.offsets.end == start && last.reason == reason => {
                last.offsets.end = end;
            }
            _ => {
                // Of very many the first ones are kept, and the last.
                self.ranges.truncate(RANGES_MAX - 1);
                self.ranges.push(SkippedRange { offsets: start..end, reason });
            }
        }
    }

    fn counter(&mut self, reason: SkipReason) -> &mut u64 {
        match reason {
            SkipReason::Damaged => &mut self.damaged,
            SkipReason::Lost => &mut self.lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SkipReason::{Damaged, Lost};

    fn told(skipped: &Skipped) -> Vec<(Range<u64>, SkipReason)> {
        skipped.ranges().iter().map(|r| (r.offsets.clone(), r.reason)).collect()
    }

    #[test]
    fn every_record_is_counted_once_and_only_if_it_was_asked_for() {
        let mut skipped = Skipped::default();
        skipped.want_from(5);
        skipped.want_until(100);
        skipped.note(2..8, Lost);
        skipped.note(8..8, Lost);
        skipped.note(8..10, Lost);
        skipped.note(10..12, Damaged);
        skipped.note(11..14, Damaged);
        skipped.note(20..30, Damaged);
        skipped.note(18..40, Damaged);
        skipped.note(98..200, Lost);
        assert_eq!(
            told(&skipped),
            [(5..10, Lost), (10..14, Damaged), (18..40, Damaged), (98..100, Lost)]
        );
        assert_eq!((skipped.count(), skipped.lost()), (5 + 4 + 22 + 2, 7));
    }

    #[test]
    fn memory_is_bounded_and_the_count_is_not() {
        let mut skipped = Skipped::default();
        let many = RANGES_MAX as u64 * 3;
        for i in 0..many {
            skipped.note(i * 10..i * 10 + 2, Lost);
        }
        assert_eq!((skipped.count(), skipped.ranges().len()), (many * 2, RANGES_MAX));
        assert_eq!(skipped.ranges().last().map(|r| r.offsets.start), Some((many - 1) * 10));
    }
}
