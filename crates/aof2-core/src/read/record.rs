//! Records as readers get them.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::format::{RecordFlags, RecordId, SegmentId};
use crate::segment::Segment;

/// A payload: a slice of the mapped segment that keeps the map alive. Cloning it
/// copies no bytes.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let log = aof2_core::Aof::open(aof2_core::AofConfig::new(dir.path().join("events")))?;
/// let id = log.append(b"kept")?;
/// log.flush()?;
/// let payload = log.read(id)?.payload;
/// log.close()?;
/// assert_eq!(&*payload, b"kept"); // the slice keeps its memory mapped
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Payload {
    segment: Arc<Segment>,
    start: u32,
    len: u32,
}

impl Payload {
    pub(crate) fn new(segment: Arc<Segment>, start: u32, len: u32) -> Self {
        Self { segment, start, len }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        // Was below the frontier when the payload was made, and the frontier only grows.
        self.segment.bytes(self.start, self.start + self.len).unwrap_or_default()
    }
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq<[u8]> for Payload {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.len)
    }
}

/// A record that owns its place in memory.
#[derive(Clone, Debug)]
pub struct Record {
    /// Segment and byte.
    pub id: RecordId,
    /// Ordinal in the stream.
    pub offset: u64,
    /// When it was appended, milliseconds since the epoch.
    pub timestamp_ms: u64,
    /// Flags.
    pub flags: RecordFlags,
    /// The bytes.
    pub payload: Payload,
}

/// A record borrowed from a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Segment and byte.
    pub id: RecordId,
    /// Ordinal in the stream.
    pub offset: u64,
    /// When it was appended, milliseconds since the epoch.
    pub timestamp_ms: u64,
    /// Flags.
    pub flags: RecordFlags,
    /// The bytes.
    pub payload: &'a [u8],
}

/// Where a verified record lies in its segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: u32,
    pub(crate) payload_len: u32,
    pub(crate) offset: u64,
    pub(crate) timestamp_ms: u64,
    pub(crate) flags: RecordFlags,
}

impl Place {
    pub(crate) fn to_record(self, segment: &Arc<Segment>) -> Record {
        let start = self.position + segment.codec().header_len() as u32;
        Record {
            id: segment.meta().record_id(self.position),
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            flags: self.flags,
            payload: Payload::new(Arc::clone(segment), start, self.payload_len),
        }
    }
}

/// Consecutive records of one segment, already verified.
#[derive(Debug)]
pub struct Batch {
    segment: Arc<Segment>,
    places: Vec<Place>,
    payload_bytes: usize,
}

impl Batch {
    pub(crate) fn new(segment: Arc<Segment>, places: Vec<Place>, payload_bytes: usize) -> Self {
        Self { segment, places, payload_bytes }
    }

    /// Number of records; never zero.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no records (never, for batches that scans give).
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The segment they lie in.
    pub fn segment_id(&self) -> SegmentId {
        self.segment.meta().segment_id
    }

    /// Their logical offsets.
    pub fn offsets(&self) -> Range<u64> {
        let first = self.places.first().map_or(0, |place| place.offset);
        first..first + self.places.len() as u64
    }

    /// Sum of the payloads' lengths.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// The records, borrowing their payloads from the mapped segment.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = RecordRef<'_>> + '_ {
        let header_len = self.segment.codec().header_len() as u32;
        let window_start = self.segment.window_range().start;
        let last = self.places.last().map_or(0, |p| p.position + header_len + p.payload_len);
        let bytes = self.segment.space(last);
        self.places.iter().map(move |place| {
            let start = (place.position + header_len - window_start) as usize;
            RecordRef {
                id: self.segment.meta().record_id(place.position),
                offset: place.offset,
                timestamp_ms: place.timestamp_ms,
                flags: place.flags,
                payload: bytes.get(start..start + place.payload_len as usize).unwrap_or_default(),
            }
        })
    }

    /// The `i`th record, owning its place in memory.
    pub fn get(&self, i: usize) -> Option<Record> {
        self.places.get(i).map(|place| place.to_record(&self.segment))
    }
}
