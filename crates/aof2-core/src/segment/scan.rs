//! Scanning a segment that has no footer: where do its records end, and is that
//! end a torn tail or damage?

use std::io;

use super::Segment;
use crate::format::{RecordFault, RecordFlags, RecordHead, SEGMENT_HEADER_LEN, SegmentFormat};
use crate::io::File;

/// Why a scan stopped where it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanStop {
    /// Zeros, or no space for another record.
    End,
    /// A record that does not validate.
    Fault(RecordFault),
    /// A valid record with the wrong logical offset: left over from before an
    /// earlier truncation.
    OutOfSequence {
        /// Logical offset that would have been right.
        expected: u64,
        /// Logical offset found.
        found: u64,
    },
}

/// What a scan found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailScan {
    /// Byte after the last valid record (the header's end if there is none).
    pub end: u32,
    /// Logical offsets that the valid records cover.
    pub record_count: u64,
    /// Start of the last valid record, 0 if there is none.
    pub last_position: u32,
    /// Largest timestamp.
    pub last_timestamp_ms: u64,
    /// Every record below this logical offset had been durable, as proved by the
    /// `durable_lag` of a surviving record, before or behind the stop.
    pub proven: u64,
    /// Byte where the first record at or above `proven` starts, if that was not
    /// claimed already: what recovery has to make durable again starts here.
    pub proven_end: u32,
    /// First valid record behind the stop: its byte and logical offset.
    pub beyond: Option<(u32, Option<u64>)>,
    /// Why the scan stopped.
    pub stop: ScanStop,
    /// Whether any byte behind `end` is not zero.
    pub dirty_beyond: bool,
}

impl TailScan {
    /// Of a segment without records.
    pub fn empty() -> Self {
        Self {
            end: SEGMENT_HEADER_LEN as u32,
            record_count: 0,
            last_position: 0,
            last_timestamp_ms: 0,
            proven: 0,
            proven_end: SEGMENT_HEADER_LEN as u32,
            beyond: None,
            stop: ScanStop::End,
            dirty_beyond: false,
        }
    }

    /// Whether the bytes behind `end` hold nothing.
    pub fn is_clean(&self) -> bool {
        self.stop == ScanStop::End && !self.dirty_beyond
    }
}

impl Segment {
    /// Walks the records from the start of the segment to the first that does not
    /// validate, then looks behind it for survivors. The map must be final: call it
    /// on files nobody writes. `file` is the same file, asked for its holes; `claimed`
    /// is what is known to be durable anyway (logical offset), so that only proof of
    /// more is located.
    pub fn scan_tail(&self, file: &dyn File, claimed: u64) -> io::Result<TailScan> {
        let space = self.map().bytes(0, self.map().len()).unwrap_or_default();
        let mut scan = TailScan::empty();
        scan.stop = self.walk_valid(space, &mut scan);
        self.look_beyond(space, file, &mut scan)?;
        if scan.proven > claimed {
            scan.proven_end = self.proven_end(space, &scan);
        }
        Ok(scan)
    }

    /// Where the first record that nothing proves durable starts.
    fn proven_end(&self, space: &[u8], scan: &TailScan) -> u32 {
        let expected = self.meta().first_offset + scan.record_count;
        if scan.proven <= expected {
            let found = self.find_offset(scan.proven, scan.end, false);
            return found.map_or(SEGMENT_HEADER_LEN as u32, |p| p.position);
        }
        let mut end = scan.end;
        let mut from = scan.end as usize;
        while let Some((at, head)) = resync(self, space, from, expected) {
            if head.logical_offset.is_none_or(|offset| offset >= scan.proven) {
                break;
            }
            from = at + head.record_len as usize;
            end = from as u32;
        }
        end
    }

    fn walk_valid(&self, space: &[u8], scan: &mut TailScan) -> ScanStop {
        let first = self.meta().first_offset;
        loop {
            let rest = space.get(scan.end as usize..).unwrap_or_default();
            let record = match self.codec().decode(rest) {
                Ok(Some(record)) => record,
                Ok(None) => return ScanStop::End,
                Err(fault) => return ScanStop::Fault(fault),
            };
            let expected = first + scan.record_count;
            if let Some(found) = record.head.logical_offset.filter(|&found| found != expected) {
                return ScanStop::OutOfSequence { expected, found };
            }
            scan.prove(&record.head, expected);
            scan.record_count += self.offsets_covered(rest, &record.head);
            scan.last_position = scan.end;
            scan.last_timestamp_ms = scan.last_timestamp_ms.max(record.head.timestamp_ms);
            scan.end += record.head.record_len;
        }
    }

    /// Survivors behind the stop are never kept, but a later record may prove that
    /// the missing one had been durable.
    fn look_beyond(&self, space: &[u8], file: &dyn File, scan: &mut TailScan) -> io::Result<()> {
        let Some(first_dirty) = first_dirty(space, file, scan.end as usize)? else { return Ok(()) };
        scan.dirty_beyond = true;
        let expected = self.meta().first_offset + scan.record_count;
        let mut from = first_dirty / 8 * 8;
        while let Some((at, head)) = resync(self, space, from, expected) {
            scan.beyond.get_or_insert((at as u32, head.logical_offset));
            scan.prove(&head, head.logical_offset.unwrap_or(0));
            from = at + head.record_len as usize;
        }
        Ok(())
    }
}

/// First byte at or behind `from` that is not zero. Holes are skipped without being
/// read: most of a fresh segment is one.
fn first_dirty(space: &[u8], file: &dyn File, mut from: usize) -> io::Result<Option<usize>> {
    const WINDOW: usize = 1 << 20;
    const ZEROS: [u8; 4096] = [0; 4096];
    while let Some(data) = file.next_data(from as u64)? {
        let start = usize::try_from(data).unwrap_or(usize::MAX).max(from);
        let Some(window) = space.get(start..(start + WINDOW).min(space.len())) else { break };
        if window.is_empty() {
            break;
        }
        for (i, chunk) in window.chunks(ZEROS.len()).enumerate() {
            if *chunk != ZEROS[..chunk.len()] {
                let byte = chunk.iter().position(|&b| b != 0).unwrap_or(0);
                return Ok(Some(start + i * ZEROS.len() + byte));
            }
        }
        from = start + window.len();
    }
    Ok(None)
}

impl TailScan {
    fn prove(&mut self, head: &RecordHead, offset: u64) {
        if let Some(lag) = head.durable_lag.filter(|&lag| lag != u32::MAX)
            && !head.flags.contains(RecordFlags::GAP)
        {
            self.proven = self.proven.max(offset.saturating_sub(u64::from(lag)));
        }
    }
}

/// Bytes that a search may checksum for every byte it searches: bounds the work on
/// hostile input whose every word looks like a length.
const CHECKSUM_BUDGET_FACTOR: usize = 16;

impl Segment {
    /// The first valid record of the window that starts behind `position` and before
    /// `end`, as [`resync`].
    pub(crate) fn resync_behind(
        &self,
        position: u32,
        end: u32,
        expected: u64,
    ) -> Option<(u32, RecordHead)> {
        let start = self.window_range().start;
        let from = (position + 8).checked_sub(start)? as usize;
        let (at, head) = resync(self, self.space(end), from, expected)?;
        Some((start + at as u32, head))
    }
}

/// Finds the first valid record at or behind `from`; in version 2 only one whose
/// logical offset is at least `expected`.
pub fn resync(
    segment: &Segment,
    space: &[u8],
    from: usize,
    expected: u64,
) -> Option<(usize, RecordHead)> {
    let codec = segment.codec();
    let mut budget = space.len().saturating_sub(from).saturating_mul(CHECKSUM_BUDGET_FACTOR);
    let mut at = from.div_ceil(8) * 8;
    while let Some(rest) = space.get(at..).filter(|rest| !rest.is_empty()) {
        if let Ok(Some(head)) = codec.peek(rest) {
            let plausible = match (codec.format(), head.logical_offset) {
                (SegmentFormat::Full, Some(offset)) => {
                    offset >= expected && offset - expected <= space.len() as u64
                }
                _ => true,
            };
            if plausible {
                if codec.verify(rest, &head).is_ok() {
                    return Some((at, head));
                }
                budget = budget.checked_sub(head.payload_len as usize)?;
            }
        }
        at += 8;
    }
    None
}
