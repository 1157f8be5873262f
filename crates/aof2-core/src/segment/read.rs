//! A mapped segment, as readers share it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::index::SparseIndex;
use crate::error::{AofError, Result};
use crate::format::{
    DecodedRecord, IndexPoint, RecordCodec, RecordFault, RecordFlags, RecordHead, RecordId,
    SEGMENT_FOOTER_LEN, SEGMENT_HEADER_LEN, SegmentFileName, SegmentFooter, SegmentFormat,
    SegmentHeader, SegmentId, StreamId,
};
use crate::io::{File, OpenMode, OutOfBounds, SharedMap, Storage};
use crate::planted;
use crate::planted::Bug;

/// Where a segment stands in its stream; known before its header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// Stream the segment belongs to.
    pub stream_id: StreamId,
    /// Position in the stream, counted in segments.
    pub segment_id: SegmentId,
    /// Layout of its records.
    pub format: SegmentFormat,
    /// Stream bytes before this segment.
    pub base_offset: u64,
    /// Logical offset of its first record.
    pub first_offset: u64,
    /// When it became active.
    pub created_at_ns: u64,
    /// Length of the file, a power of two.
    pub segment_bytes: u32,
}

impl SegmentMeta {
    /// Name of the segment's file.
    pub fn file_name(&self) -> SegmentFileName {
        SegmentFileName {
            segment_id: self.segment_id,
            base_offset: self.base_offset,
            created_at_ns: self.created_at_ns,
        }
    }

    /// The codec of the segment's records.
    pub fn codec(&self) -> RecordCodec {
        RecordCodec::new(self.format, self.stream_id, self.segment_id)
    }

    /// The header, once the first record's timestamp is known.
    pub fn header(&self, base_timestamp_ms: u64) -> SegmentHeader {
        let compact = self.format == SegmentFormat::Compact;
        SegmentHeader {
            format: self.format,
            segment_id: self.segment_id,
            created_at_ns: self.created_at_ns,
            stream_id: (!compact).then_some(self.stream_id),
            base_record_count: compact.then_some(self.first_offset),
            base_offset: compact.then_some(self.base_offset),
            max_size: compact.then_some(self.segment_bytes),
            base_timestamp_ms: compact.then_some(base_timestamp_ms),
        }
    }

    /// Id of the record that starts at this byte of the file.
    #[inline]
    pub fn record_id(&self, position: u32) -> RecordId {
        RecordId::from_parts(self.segment_id.as_u32(), position)
    }

    /// End of the space for records: the last 64 bytes are the footer's.
    pub fn space_end(&self) -> u32 {
        self.segment_bytes - SEGMENT_FOOTER_LEN as u32
    }
}

/// A segment's bytes and how to read them. Payload slices borrow from it, so
/// holding it keeps the memory mapped whatever happens to the file's name.
///
/// It may be a *window*: only some of the segment's bytes, those of whole records,
/// held in memory. Positions are the segment's own all the same. What is mapped from
/// a segment file is a window over all of it.
#[derive(Debug)]
pub struct Segment {
    meta: SegmentMeta,
    path: PathBuf,
    codec: RecordCodec,
    map: Arc<SharedMap>,
    is_window: bool,
    /// Position of the first byte of the map.
    window_start: u32,
    /// The first record of the window.
    first: IndexPoint,
    /// End of the last record once no more will come; 0 while it may still grow.
    closed_end: AtomicU32,
    index: SparseIndex,
}

impl Segment {
    pub(crate) fn new(meta: SegmentMeta, path: PathBuf, map: Arc<SharedMap>) -> Self {
        Self {
            codec: meta.codec(),
            meta,
            path,
            map,
            is_window: false,
            window_start: 0,
            first: IndexPoint {
                position: SEGMENT_HEADER_LEN as u32,
                offset: meta.first_offset,
                timestamp_before_ms: 0,
            },
            closed_end: AtomicU32::new(0),
            index: SparseIndex::default(),
        }
    }

    /// A window over the `bytes` that stand at `window_start` of the sealed segment.
    /// They end with a record; `first` is the place of the first one. `path` names what
    /// they were read from.
    pub fn window(
        meta: SegmentMeta,
        path: PathBuf,
        bytes: Vec<u8>,
        window_start: u32,
        first: IndexPoint,
    ) -> Self {
        let map = Arc::new(SharedMap::of_bytes(bytes));
        Self { is_window: true, window_start, first, ..Self::new(meta, path, map) }
    }

    /// Maps a sealed segment read-only: just the bytes its footer vouches for.
    pub fn open_sealed(
        storage: &dyn Storage,
        path: &Path,
        meta: SegmentMeta,
        durable_bytes: u32,
    ) -> Result<Self> {
        let file =
            storage.open(path, OpenMode::Read).map_err(AofError::io("open segment", path))?;
        let map =
            file.map(durable_bytes as usize, false).map_err(AofError::io("map segment", path))?;
        map.observe(durable_bytes as usize)
            .map_err(|e| AofError::io("map segment", path)(e.into()))?;
        let segment = Self::new(meta, path.to_owned(), Arc::new(map));
        segment.close_at(durable_bytes);
        Ok(segment)
    }

    /// Maps a segment without a footer read-only. Nothing is visible until
    /// [`SharedMap::observe`] raises the frontier.
    pub fn open_unsealed(storage: &dyn Storage, path: &Path, meta: SegmentMeta) -> Result<Self> {
        let file =
            storage.open(path, OpenMode::Read).map_err(AofError::io("open segment", path))?;
        let map = file
            .map(meta.space_end() as usize, false)
            .map_err(AofError::io("map segment", path))?;
        Ok(Self::new(meta, path.to_owned(), Arc::new(map)))
    }

    /// Reads and checks the 64-byte header; `None` when it was never written.
    pub fn load_header(file: &dyn File, path: &Path) -> Result<Option<SegmentHeader>> {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read segment header", path))?;
        SegmentHeader::decode(&bytes).map_err(|e| AofError::Foreign {
            path: path.to_owned(),
            reason: format!("its header is not a segment header ({e})"),
        })
    }

    /// Reads the footer slot. `Ok(None)`: never sealed. `Err`: the slot holds
    /// something that is not a valid footer.
    pub fn load_footer(
        file: &dyn File,
        path: &Path,
        format: SegmentFormat,
        segment_bytes: u64,
    ) -> Result<std::result::Result<Option<SegmentFooter>, crate::format::FormatError>> {
        let mut bytes = [0; SEGMENT_FOOTER_LEN];
        file.read_exact_at(&mut bytes, segment_bytes.saturating_sub(SEGMENT_FOOTER_LEN as u64))
            .map_err(AofError::io("read segment footer", path))?;
        Ok(SegmentFooter::decode(format, &bytes))
    }

    /// Where the segment stands in its stream.
    pub fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// Path of its file, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The codec of its records.
    pub fn codec(&self) -> &RecordCodec {
        &self.codec
    }

    /// Bytes of the segment that this window holds, by their positions.
    pub fn window_range(&self) -> std::ops::Range<u32> {
        self.window_start..self.window_start + self.map.len() as u32
    }

    /// Whether this is all of the segment.
    pub fn is_whole(&self) -> bool {
        !self.is_window
    }

    /// Final bytes of the segment. `None` when they are not in the window, or not
    /// final yet.
    #[inline]
    pub fn bytes(&self, start: u32, end: u32) -> Option<&[u8]> {
        let start = start.checked_sub(self.window_start)?;
        let end = end.checked_sub(self.window_start)?;
        self.map.bytes(start as usize, end as usize)
    }

    /// All final bytes of the window below `end`.
    pub(crate) fn space(&self, end: u32) -> &[u8] {
        self.bytes(self.window_start, end).unwrap_or_default()
    }

    /// Declares the bytes below `end` final, as [`SharedMap::observe`].
    pub(crate) fn observe(&self, end: u32) -> std::result::Result<(), OutOfBounds> {
        self.map.observe(end.saturating_sub(self.window_start) as usize)
    }

    /// Where walking the records of the window starts.
    pub(crate) fn first_point(&self) -> IndexPoint {
        self.first
    }

    /// The mapped bytes.
    pub fn map(&self) -> &Arc<SharedMap> {
        &self.map
    }

    pub(crate) fn index(&self) -> &SparseIndex {
        &self.index
    }

    /// Declares that no record will follow this position.
    pub(crate) fn close_at(&self, end: u32) {
        self.closed_end.store(end, Ordering::Release);
    }

    /// End of the last record, once no more will come.
    pub fn closed_end(&self) -> Option<u32> {
        Some(self.closed_end.load(Ordering::Acquire)).filter(|&end| end != 0)
    }

    /// Decodes and verifies the record at `position`, reading no further than
    /// `end`. `Ok(None)` where the records end.
    #[inline]
    pub fn record_at(
        &self,
        position: u32,
        end: u32,
        verify: bool,
    ) -> std::result::Result<Option<DecodedRecord<'_>>, RecordFault> {
        let Some(bytes) = self.bytes(position, end) else {
            return Ok(None);
        };
        if verify && !planted::is(Bug::SkipChecksums) {
            return self.codec.decode(bytes);
        }
        let head = self.codec.peek(bytes)?;
        Ok(head.map(|head| DecodedRecord { head, payload: self.payload(bytes, &head) }))
    }

    fn payload<'a>(&self, bytes: &'a [u8], head: &RecordHead) -> &'a [u8] {
        let start = self.codec.header_len();
        bytes.get(start..start + head.payload_len as usize).unwrap_or_default()
    }

    /// How many logical offsets a record stands for: one, or what a gap lost.
    pub(crate) fn offsets_covered(&self, bytes: &[u8], head: &RecordHead) -> u64 {
        if !head.flags.contains(RecordFlags::GAP) {
            return 1;
        }
        let record = DecodedRecord { head: *head, payload: self.payload(bytes, head) };
        record.gap().map_or(1, |gap| gap.lost_count)
    }
}
