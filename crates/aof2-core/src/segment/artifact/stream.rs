//! Going through a whole artifact in memory that does not grow with it.

use std::ops::Range;

use bytes::Bytes;

use super::frames::{FrameDecoder, FrameError};
use super::read::{Artifact, read_exact};
use crate::error::{AofError, Result};
use crate::format::{Crc64, SEGMENT_FOOTER_LEN, SegmentFooter};

/// Compressed bytes read at once.
pub(super) const READ_LEN_MAX: u64 = 4 << 20;

impl Artifact {
    /// Checks every byte: the frames by their checksums, the segment by its own, and
    /// that its footer says what the index says. `progress` is told how many bytes of
    /// the segment are done.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let mut check = SegmentCheck::new(self);
        self.stream(|position, bytes| {
            check.take(position, bytes);
            progress(u64::from(position) + bytes.len() as u64);
            Ok(())
        })?;
        check.finish().map(drop)
    }

    /// The same of an artifact whose index is kept elsewhere: its end must be that index.
    pub(crate) fn verify_with_end(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let tail = self.index().encode_tail();
        let end = self.index().artifact_len();
        let start = end.saturating_sub(tail.len() as u64);
        if read_exact(&**self.source(), start..end)? != tail {
            return Err(self.damaged_as_whole("its index is not the one that is kept here".into()));
        }
        self.verify(progress)
    }

    /// Hands everything to `sink` in order: the segment's bytes, and its footer as if it
    /// stood behind them. What comes was not verified before the stream ends well.
    pub(super) fn stream(&self, mut sink: impl FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut decoder = FrameDecoder::new().map_err(|fault| self.cannot_read(&fault))?;
        let mut batch = Batch::default();
        let frames = self.index().frames.iter().chain([&self.index().footer]);
        for (next, frame) in frames.enumerate() {
            if frame.compressed_end() > batch.end() {
                batch = self.read_batch(next)?;
            }
            let mut position = frame.position;
            let range = frame.compressed_offset..frame.compressed_end();
            let pieces = self.pieces(&batch, range);
            let decoded = decoder.pieces(frame, pieces, |bytes| {
                sink(position, bytes)?;
                position = position.saturating_add(bytes.len() as u32);
                Ok(())
            });
            decoded.map_err(|error| match error {
                FrameError::Fault(fault) => self.damaged(next, &fault),
                FrameError::Sink(error) => error,
            })?;
        }
        Ok(())
    }

    /// Reads this frame and those behind it that still fit; nothing if it alone does
    /// not.
    fn read_batch(&self, first: usize) -> Result<Batch> {
        let rest = self.index().frames.get(first..).unwrap_or_default();
        let start = rest.first().unwrap_or(&self.index().footer).compressed_offset;
        let ends = rest.iter().chain([&self.index().footer]).map(|frame| frame.compressed_end());
        let end = ends.take_while(|end| end - start <= READ_LEN_MAX).last().unwrap_or(start);
        let behind = end..self.index().footer.compressed_end().min(end + READ_LEN_MAX);
        if start < end && !behind.is_empty() {
            self.source().announce(behind);
        }
        Ok(Batch { start, bytes: read_exact(&**self.source(), start..end)? })
    }

    /// A frame's compressed bytes: from the batch, or read piece by piece if they are
    /// too many for one.
    fn pieces<'a>(
        &'a self,
        batch: &'a Batch,
        range: Range<u64>,
    ) -> impl Iterator<Item = Result<Bytes>> + 'a {
        let known = batch.get(&range).map(Ok);
        let mut at = if known.is_some() { range.end } else { range.start };
        let read = std::iter::from_fn(move || {
            let end = (at + READ_LEN_MAX).min(range.end);
            let piece = (at < end).then(|| read_exact(&**self.source(), at..end));
            at = end;
            piece
        });
        known.into_iter().chain(read)
    }
}

/// Compressed bytes of a few frames.
#[derive(Debug, Default)]
struct Batch {
    start: u64,
    bytes: Bytes,
}

impl Batch {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn get(&self, range: &Range<u64>) -> Option<Bytes> {
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let end = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        (start <= end && end <= self.bytes.len()).then(|| self.bytes.slice(start..end))
    }
}

/// Whether what streams by is the segment that the index promises.
pub(super) struct SegmentCheck<'a> {
    artifact: &'a Artifact,
    crc: Crc64,
    footer: Vec<u8>,
}

impl<'a> SegmentCheck<'a> {
    pub(super) fn new(artifact: &'a Artifact) -> Self {
        Self { artifact, crc: Crc64::new(), footer: Vec::with_capacity(SEGMENT_FOOTER_LEN) }
    }

    /// Takes the next bytes. Whether they belong to the footer.
    pub(super) fn take(&mut self, position: u32, bytes: &[u8]) -> bool {
        let is_footer = position >= self.artifact.index().summary.durable_bytes;
        if is_footer {
            self.footer.extend_from_slice(bytes);
        } else {
            self.crc.update(bytes);
        }
        is_footer
    }

    /// The footer, if all is well.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let (found, expected) = (self.crc.finish(), self.artifact.index().summary.segment_crc64);
        if found != expected {
            let reason = format!("segment checksum {found:#018x}, {expected:#018x} in the index");
            return Err(self.damage(0, reason));
        }
        self.check_footer()?;
        Ok(self.footer)
    }

    fn check_footer(&self) -> Result<()> {
        let summary = &self.artifact.index().summary;
        let reason = match SegmentFooter::decode(summary.format, &self.footer) {
            Ok(Some(footer)) => {
                let told = (footer.record_count, footer.durable_bytes, footer.segment_crc64);
                let promised = summary.footer();
                let known = (promised.record_count, promised.durable_bytes, promised.segment_crc64);
                let is_same = told == known
                    && (footer.ext_id, footer.flags) == (promised.ext_id, promised.flags)
                    && footer.last_timestamp_ms <= promised.last_timestamp_ms;
                if is_same {
                    return Ok(());
                }
                "the segment's footer says something else than the index".to_owned()
            }
            Ok(None) => "the segment has no footer".to_owned(),
            Err(error) => format!("the segment's footer does not decode ({error})"),
        };
        Err(self.damage(self.artifact.index().footer.compressed_offset, reason))
    }

    fn damage(&self, offset: u64, reason: String) -> AofError {
        let summary = &self.artifact.index().summary;
        self.artifact.damage(offset, summary.first_offset..summary.end_offset(), reason)
    }
}
