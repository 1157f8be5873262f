//! One compressed segment as it is, without judging: its frames, found by the index or,
//! if that is damaged, one behind the other.
//!
//! One frame is in memory at a time.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::{
    ArtifactFrame, ArtifactIndex, RecordCodec, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN,
    SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFileName, SegmentFooter, SegmentFormat,
    SegmentHeader, WarmFileName,
};
use crate::io::Storage;
use crate::segment::{Artifact, ArtifactSource, FileSource, Stretch, frame_at, stretches};
use crate::store::SealedInfo;

/// Where the records of the longest segment end.
const END_MAX: u64 = SEGMENT_BYTES_MAX - SEGMENT_FOOTER_LEN as u64;

/// A frame of records, or a stretch where there were some.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Bytes of the segment.
    pub(super) bytes: Range<u32>,
    /// Byte of the artifact where it starts.
    pub(super) compressed_offset: u64,
    /// Bytes of the artifact that it must take; `None` where there is no frame.
    compressed_len: Option<u32>,
    /// Checksum by the seek table.
    checksum: u32,
    /// Logical offsets by the index.
    pub(super) offsets: Option<Range<u64>>,
}

impl Frame {
    /// Bytes of the segment that nothing is left of.
    pub(super) fn lost(bytes: Range<u32>) -> Self {
        Self { bytes, compressed_offset: 0, compressed_len: None, checksum: 0, offsets: None }
    }
}

/// What became of a frame.
pub(super) enum Content {
    Intact(Vec<u8>),
    /// The frame is intact, but the seek table has another checksum for it, so that
    /// readers refuse it.
    Refused(Vec<u8>),
    Damaged,
}

/// Something wrong with the artifact that is not a damaged frame of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Byte of the artifact.
    pub(super) offset: u64,
    pub(super) detail: String,
}

/// A compressed segment as far as it can be made out.
#[derive(Debug)]
pub(super) struct Compressed {
    source: Arc<dyn ArtifactSource>,
    pub(super) file_name: WarmFileName,
    /// The index, if it is valid.
    pub(super) index: Option<ArtifactIndex>,
    /// Why it is not.
    pub(super) index_flaw: Option<Flaw>,
    /// In the order of the segment, without a gap between them.
    pub(super) frames: Vec<Frame>,
    /// Whether more may have followed than `frames` tell.
    pub(super) is_cut: bool,
    pub(super) header: Option<SegmentHeader>,
    pub(super) footer: Option<SegmentFooter>,
    /// Byte of the artifact where the footer's frame is or should be.
    pub(super) footer_offset: u64,
    pub(super) footer_flaw: Option<Flaw>,
}

impl Compressed {
    pub(super) fn load(
        storage: &dyn Storage,
        path: &Path,
        file_name: WarmFileName,
        default_format: SegmentFormat,
    ) -> Result<Self> {
        let source: Arc<dyn ArtifactSource> = Arc::new(FileSource::open(storage, path)?);
        match Artifact::open(Arc::clone(&source)) {
            Ok(artifact) => Self::by_index(source, file_name, artifact.index().clone()),
            Err(AofError::Corrupt(damage)) => {
                let flaw = Flaw { offset: damage.offset, detail: damage.reason };
                Self::by_search(source, file_name, flaw, default_format)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn by_index(
        source: Arc<dyn ArtifactSource>,
        file_name: WarmFileName,
        index: ArtifactIndex,
    ) -> Result<Self> {
        let place = |(i, frame): (usize, &ArtifactFrame)| Frame {
            bytes: frame.position..frame.position + frame.len,
            compressed_offset: frame.compressed_offset,
            compressed_len: Some(frame.compressed_len),
            checksum: frame.checksum,
            offsets: Some(index.offsets_of(i)),
        };
        let mut compressed = Self {
            source,
            file_name,
            frames: index.frames.iter().enumerate().map(place).collect(),
            is_cut: false,
            index_flaw: None,
            header: None,
            footer: None,
            footer_offset: index.footer.compressed_offset,
            footer_flaw: None,
            index: None,
        };
        compressed.header = compressed.read_header()?;
        compressed.read_footer(&index)?;
        compressed.index = Some(index);
        Ok(compressed)
    }

    fn read_header(&self) -> Result<Option<SegmentHeader>> {
        let Some(first) = self.frames.first() else { return Ok(None) };
        Ok(match self.read(first)? {
            Content::Intact(bytes) | Content::Refused(bytes) => decode_header(&bytes),
            Content::Damaged => None,
        })
    }

    /// The footer's frame, or what the index knows of it.
    fn read_footer(&mut self, index: &ArtifactIndex) -> Result<()> {
        let place = &index.footer;
        let promised = index.summary.footer();
        let found = frame_at(&*self.source, place.compressed_offset)?
            .filter(|(frame, _)| is_same_place(frame, place.compressed_len, place.len));
        let read = found.as_ref().map(|(_, bytes)| SegmentFooter::decode(promised.format, bytes));
        let refused = found.as_ref().is_some_and(|(frame, _)| frame.checksum != place.checksum);
        let footer = match read {
            Some(Ok(Some(footer))) => Ok(footer),
            Some(Ok(None)) => Err("there is none".to_owned()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("its frame does not decompress".to_owned()),
        };
        let detail = match &footer {
            Err(reason) => Some(format!("the footer is damaged: {reason}")),
            Ok(_) if refused => {
                Some("the seek table has another checksum for the footer".to_owned())
            }
            Ok(footer) if !says_the_same(footer, &promised) => {
                Some("the footer says something else than the index".to_owned())
            }
            Ok(_) => None,
        };
        self.footer_flaw = detail.map(|detail| Flaw { offset: self.footer_offset, detail });
        self.footer = Some(footer.unwrap_or(promised));
        Ok(())
    }

    /// Index or seek table are damaged: the frames themselves tell how long they are.
    pub(super) fn by_search(
        source: Arc<dyn ArtifactSource>,
        file_name: WarmFileName,
        flaw: Flaw,
        default_format: SegmentFormat,
    ) -> Result<Self> {
        let mut search = Search { pieces: Vec::new(), header: None, footer: None };
        stretches(&*source, |stretch| {
            search.take(stretch, default_format);
            Ok(())
        })?;
        let footer_offset = search.footer.as_ref().map_or(source.len(), |(at, _)| *at);
        let (frames, is_cut) = search.place();
        Ok(Self {
            source,
            file_name,
            frames,
            is_cut,
            index: None,
            index_flaw: Some(flaw),
            header: search.header,
            footer: search.footer.map(|(_, footer)| footer),
            footer_offset,
            footer_flaw: None,
        })
    }

    /// Decompresses a frame.
    pub(super) fn read(&self, frame: &Frame) -> Result<Content> {
        let Some(compressed_len) = frame.compressed_len else { return Ok(Content::Damaged) };
        let len = frame.bytes.end - frame.bytes.start;
        Ok(match frame_at(&*self.source, frame.compressed_offset)? {
            Some((found, bytes)) if is_same_place(&found, compressed_len, len) => {
                match found.checksum == frame.checksum {
                    true => Content::Intact(bytes),
                    false => Content::Refused(bytes),
                }
            }
            _ => Content::Damaged,
        })
    }

    /// Gives the bytes `range` of the segment to `sink`, a frame at a time. Damage that
    /// was not there a moment ago is an error.
    pub(super) fn copy(
        &self,
        range: Range<u32>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        for frame in &self.frames {
            let start = range.start.max(frame.bytes.start);
            let end = range.end.min(frame.bytes.end);
            if start >= end {
                continue;
            }
            let (Content::Intact(bytes) | Content::Refused(bytes)) = self.read(frame)? else {
                let error = std::io::Error::other("a frame was intact and is not any more");
                return Err(AofError::io("read compressed segment", self.source.name())(error));
            };
            let at = |position: u32| (position - frame.bytes.start) as usize;
            sink(bytes.get(at(start)..at(end)).unwrap_or_default())?;
        }
        Ok(())
    }

    pub(super) fn format(&self, default: SegmentFormat) -> SegmentFormat {
        let by_index = self.index.as_ref().map(|index| index.summary.format);
        let by_footer = self.footer.map(|footer| footer.format);
        by_index.or(self.header.map(|h| h.format)).or(by_footer).unwrap_or(default)
    }

    /// What the segment's file was called, as far as the artifact tells.
    pub(super) fn segment_name(&self) -> SegmentFileName {
        let own = &self.file_name;
        match (&self.index, &self.header) {
            (Some(index), _) => SegmentFileName {
                segment_id: index.summary.segment_id,
                base_offset: index.summary.base_offset,
                created_at_ns: index.summary.created_at_ns,
            },
            (None, Some(header)) => SegmentFileName {
                segment_id: header.segment_id,
                base_offset: header.base_offset.unwrap_or(own.base_offset),
                created_at_ns: header.created_at_ns,
            },
            // Made before it was sealed; nothing else is left that tells when.
            (None, None) => SegmentFileName {
                segment_id: own.segment_id,
                base_offset: own.base_offset,
                created_at_ns: own.sealed_at_ns,
            },
        }
    }

    /// Length of the segment's file. Without index and header nobody knows; then the
    /// shortest that holds it.
    pub(super) fn segment_bytes(&self) -> u32 {
        let by_index = self.index.as_ref().map(|index| index.summary.segment_bytes);
        let by_header = self.header.and_then(|header| header.max_size);
        let known = by_index.or(by_header.filter(|&len| {
            super::ends::is_segment_len(u64::from(len))
                && u64::from(len) >= u64::from(self.end()) + SEGMENT_FOOTER_LEN as u64
        }));
        known.unwrap_or_else(|| segment_bytes_for(self.end()))
    }

    /// Byte behind the last frame.
    pub(super) fn end(&self) -> u32 {
        self.frames.last().map_or(SEGMENT_HEADER_LEN as u32, |frame| frame.bytes.end)
    }

    /// Byte of the artifact with the frame that holds this byte of the segment.
    pub(super) fn place_of(&self, position: u32) -> u64 {
        let holds = |frame: &&Frame| frame.bytes.contains(&position);
        self.frames.iter().find(holds).map_or(self.footer_offset, |frame| frame.compressed_offset)
    }

    /// Logical offset of the first record, if something checksummed says it.
    pub(super) fn first_offset(&self, codec: &RecordCodec) -> Option<u64> {
        if let Some(index) = &self.index {
            return Some(index.summary.first_offset);
        }
        if codec.format() == SegmentFormat::Compact {
            return self.header?.base_record_count;
        }
        let Ok(Content::Intact(bytes)) = self.read(self.frames.first()?) else { return None };
        codec.decode(bytes.get(SEGMENT_HEADER_LEN..)?).ok()??.head.logical_offset
    }
}

/// Length of the shortest segment that holds so many bytes of header and records.
pub(super) fn segment_bytes_for(end: u32) -> u32 {
    let len = u64::from(end) + SEGMENT_FOOTER_LEN as u64;
    len.next_power_of_two().clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) as u32
}

fn is_same_place(frame: &ArtifactFrame, compressed_len: u32, len: u32) -> bool {
    frame.compressed_len == compressed_len && frame.len == len
}

fn says_the_same(footer: &SegmentFooter, promised: &SegmentFooter) -> bool {
    SealedInfo::from(footer).is_same_content(&SealedInfo::from(promised))
        && (footer.ext_id, footer.flags) == (promised.ext_id, promised.flags)
        && footer.last_timestamp_ms <= promised.last_timestamp_ms
}

fn decode_header(bytes: &[u8]) -> Option<SegmentHeader> {
    SegmentHeader::decode(bytes.get(..SEGMENT_HEADER_LEN)?).ok()?
}

/// A frame, or bytes between frames, as searching found it.
struct Piece {
    compressed_offset: u64,
    compressed_len: Option<u32>,
    checksum: u32,
    /// Length of the content; of a damaged one what its header says.
    len: Option<u32>,
}

struct Search {
    pieces: Vec<Piece>,
    header: Option<SegmentHeader>,
    /// The footer, and where its frame is.
    footer: Option<(u64, SegmentFooter)>,
}

impl Search {
    fn take(&mut self, stretch: Stretch, default_format: SegmentFormat) {
        if self.footer.is_some() {
            // What is left of index and seek table.
            return;
        }
        match stretch {
            Stretch::Frame(frame, bytes) => {
                let offset = frame.compressed_offset;
                if offset == 0 {
                    self.header = decode_header(&bytes);
                }
                let format = self.header.map_or(default_format, |h| h.format);
                if bytes.len() == SEGMENT_FOOTER_LEN
                    && let Ok(Some(footer)) = SegmentFooter::decode(format, &bytes)
                    && footer.durable_bytes <= END_MAX
                {
                    self.footer = Some((offset, footer));
                    return;
                }
                self.pieces.push(Piece {
                    compressed_offset: offset,
                    compressed_len: Some(frame.compressed_len),
                    checksum: frame.checksum,
                    len: Some(frame.len),
                });
            }
            Stretch::Damaged { place, claimed_len } => self.pieces.push(Piece {
                compressed_offset: place.start,
                compressed_len: None,
                checksum: 0,
                len: claimed_len,
            }),
        }
    }

    /// Where in the segment the pieces belong, and whether more may have followed. The
    /// footer says how long all of them are together. If what the damaged ones say of
    /// their length does not add up to that, only what stands before the first and
    /// behind the last of them has a certain place.
    fn place(&self) -> (Vec<Frame>, bool) {
        let pieces = &self.pieces;
        let is_damaged = |piece: &Piece| piece.compressed_len.is_none();
        let first = pieces.iter().position(is_damaged).unwrap_or(pieces.len());
        let behind = pieces.iter().rposition(is_damaged).map_or(pieces.len(), |last| last + 1);
        let len = |pieces: &[Piece]| -> Option<u64> {
            pieces.iter().map(|piece| piece.len.map(u64::from)).sum()
        };
        let Some((_, footer)) = &self.footer else {
            return (frames(&pieces[..first], 0), true);
        };
        let total = footer.durable_bytes;
        if len(pieces) == Some(total) {
            return (frames(pieces, 0), false);
        }
        let (before, after) = (len(&pieces[..first]), len(&pieces[behind..]));
        let start = before.filter(|before| *before <= total).unwrap_or(0);
        let end = after.and_then(|after| total.checked_sub(after)).filter(|end| *end >= start);
        let Some(end) = end.filter(|_| first < behind) else {
            return (frames(&pieces[..first], 0), true);
        };
        let mut placed = frames(&pieces[..first], 0);
        if start < end {
            let compressed_offset = pieces[first].compressed_offset;
            placed.push(Frame { compressed_offset, ..Frame::lost(start as u32..end as u32) });
        }
        placed.extend(frames(&pieces[behind..], end as u32));
        (placed, false)
    }
}

/// The pieces one behind the other, as many as a segment can hold.
fn frames(pieces: &[Piece], start: u32) -> Vec<Frame> {
    let mut placed = Vec::with_capacity(pieces.len());
    let mut at = start;
    for piece in pieces {
        let end = u64::from(at) + u64::from(piece.len.unwrap_or(0));
        if end > END_MAX {
            break;
        }
        placed.push(Frame {
            compressed_offset: piece.compressed_offset,
            compressed_len: piece.compressed_len,
            checksum: piece.checksum,
            ..Frame::lost(at..end as u32)
        });
        at = end as u32;
    }
    placed
}
