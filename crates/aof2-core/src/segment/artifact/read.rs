//! An artifact opened for reading.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::frames::{FrameDecoder, FrameFault};
use super::{ArtifactSource, FileSource};
use crate::error::{AofError, Damage, Result};
use crate::format::{
    ArtifactFrame, ArtifactIndex, FormatError, IndexPoint, SEGMENT_HEADER_LEN, SegmentFooter,
};
use crate::io::Storage;
use crate::segment::{Segment, SegmentMeta};

/// Read from the end at first: index and seek table of about 1,800 frames, which is a
/// segment of 450 MiB.
const TAIL_GUESS_LEN: u64 = 64 << 10;

/// A compressed segment: where its bytes are, and what is where in them.
#[derive(Debug)]
pub struct Artifact {
    source: Arc<dyn ArtifactSource>,
    index: ArtifactIndex,
    /// Whether the frames are bytes of the segment as they are.
    is_plain: bool,
}

impl Artifact {
    /// Reads the index. One read of the end, a second one if the index is longer.
    pub fn open(source: Arc<dyn ArtifactSource>) -> Result<Self> {
        let len = source.len();
        let guess = len.min(TAIL_GUESS_LEN);
        let mut tail = read_exact(&*source, len - guess..len)?;
        let bad = |error| bad_tail(&*source, len - guess, error);
        let tail_len = ArtifactIndex::tail_len(&tail).map_err(bad)?;
        if tail_len > len {
            let short =
                FormatError::BadField { field: "frame_count", reason: "longer than the file" };
            return Err(bad(short));
        }
        if tail_len > guess {
            tail = read_exact(&*source, len - tail_len..len)?;
        }
        let index = ArtifactIndex::decode_tail(&tail, len).map_err(bad)?;
        Ok(Self { source, index, is_plain: false })
    }

    /// The compressed file with this name.
    pub fn open_file(storage: &dyn Storage, path: impl Into<PathBuf>) -> Result<Self> {
        Self::open(Arc::new(FileSource::open(storage, path)?))
    }

    /// With an index that was kept elsewhere. Frames prove themselves when they are
    /// read.
    pub fn with_index(source: Arc<dyn ArtifactSource>, index: ArtifactIndex) -> Self {
        Self { source, index, is_plain: false }
    }

    /// A segment file as it is, read by windows: each frame is where its bytes are.
    /// Nothing but the records' own checksums covers them.
    pub(crate) fn plain(source: Arc<dyn ArtifactSource>, index: ArtifactIndex) -> Self {
        Self { source, index, is_plain: true }
    }

    /// What is where.
    pub fn index(&self) -> &ArtifactIndex {
        &self.index
    }

    /// Where the bytes are.
    pub fn source(&self) -> &Arc<dyn ArtifactSource> {
        &self.source
    }

    /// Where the segment stands in its stream.
    pub fn meta(&self) -> SegmentMeta {
        let summary = &self.index.summary;
        SegmentMeta {
            stream_id: summary.stream_id,
            segment_id: summary.segment_id,
            format: summary.format,
            base_offset: summary.base_offset,
            first_offset: summary.first_offset,
            created_at_ns: summary.created_at_ns,
            segment_bytes: summary.segment_bytes,
        }
    }

    /// What the segment's footer says, as the index has it.
    pub fn footer(&self) -> SegmentFooter {
        self.index.summary.footer()
    }

    /// Says that these data frames will be read next.
    pub fn announce(&self, frames: Range<usize>) {
        if let Some(range) = self.compressed_range(&frames) {
            self.source.announce(range);
        }
    }

    /// The data frames as windows of the segment, from one read. Damage in any of them
    /// is the answer; ask for frames one by one to read around it.
    pub fn windows(&self, frames: Range<usize>) -> Result<Vec<Segment>> {
        let Some(range) = self.compressed_range(&frames) else { return Ok(Vec::new()) };
        if self.is_plain {
            return self.plain_windows(frames);
        }
        let start = range.start;
        let compressed = read_exact(&*self.source, range)?;
        let mut decoder = FrameDecoder::new().map_err(|fault| self.cannot_read(&fault))?;
        let wanted = self.index.frames.get(frames.clone()).unwrap_or_default();
        let mut windows = Vec::with_capacity(wanted.len());
        for (i, frame) in frames.zip(wanted) {
            let at = (frame.compressed_offset - start) as usize;
            let bytes = compressed.get(at..at + frame.compressed_len as usize).unwrap_or_default();
            let bytes = decoder.whole(frame, bytes).map_err(|fault| self.damaged(i, &fault))?;
            windows.push(self.window(frame, bytes));
        }
        Ok(windows)
    }

    fn plain_windows(&self, frames: Range<usize>) -> Result<Vec<Segment>> {
        let wanted = self.index.frames.get(frames).unwrap_or_default();
        let read = |frame: &ArtifactFrame| {
            let range = frame.compressed_offset..frame.compressed_end();
            Ok(self.window(frame, read_exact(&*self.source, range)?.into()))
        };
        wanted.iter().map(read).collect()
    }

    fn window(&self, frame: &ArtifactFrame, bytes: Vec<u8>) -> Segment {
        let first = IndexPoint {
            // The first frame starts with the segment's header.
            position: frame.position.max(SEGMENT_HEADER_LEN as u32),
            offset: frame.first_offset,
            timestamp_before_ms: frame.timestamp_before_ms,
        };
        Segment::window(self.meta(), self.source.name().to_owned(), bytes, frame.position, first)
    }

    /// Bytes of the artifact that hold these data frames; `None` if there are none, or
    /// not that many.
    fn compressed_range(&self, frames: &Range<usize>) -> Option<Range<u64>> {
        let frames = self.index.frames.get(frames.clone())?;
        Some(frames.first()?.compressed_offset..frames.last()?.compressed_end())
    }

    /// Damage in a frame: a data frame, or the one behind them, which is the footer's.
    pub(super) fn damaged(&self, frame: usize, fault: &FrameFault) -> AofError {
        let place = self.index.frames.get(frame).unwrap_or(&self.index.footer);
        self.damage(place.compressed_offset, self.index.offsets_of(frame), fault.to_string())
    }

    /// Damage that no single frame shows.
    pub(crate) fn damaged_as_whole(&self, reason: String) -> AofError {
        let first = self.meta().first_offset;
        self.damage(0, first..first.saturating_add(self.footer().record_count), reason)
    }

    pub(super) fn damage(&self, offset: u64, records: Range<u64>, reason: String) -> AofError {
        let path = self.source.name().to_owned();
        AofError::Corrupt(Box::new(Damage { path, offset, records, reason }))
    }

    pub(super) fn cannot_read(&self, fault: &FrameFault) -> AofError {
        let error = io::Error::other(fault.to_string());
        AofError::io("read compressed segment", self.source.name())(error)
    }
}

/// Reads what is there, and not less: a source may be a network.
pub(super) fn read_exact(source: &dyn ArtifactSource, range: Range<u64>) -> Result<Bytes> {
    let failed = || AofError::io("read compressed segment", source.name());
    let len = usize::try_from(range.end - range.start)
        .map_err(|_| failed()(io::ErrorKind::OutOfMemory.into()))?;
    // An empty range is nothing to ask an object store for.
    if len == 0 {
        return Ok(Bytes::new());
    }
    let bytes = source.read_at(range.start, len)?;
    if bytes.len() != len {
        return Err(failed()(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(bytes)
}

/// Without the index nobody knows which records are affected.
fn bad_tail(source: &dyn ArtifactSource, offset: u64, error: FormatError) -> AofError {
    let path = source.name().to_owned();
    match error {
        FormatError::UnsupportedVersion { found } => AofError::Foreign {
            path,
            reason: format!("its index has version {found}, which is newer than this program"),
        },
        error => AofError::Corrupt(Box::new(Damage {
            path,
            offset,
            records: 0..u64::MAX,
            reason: format!("the index does not decode ({error})"),
        })),
    }
}
