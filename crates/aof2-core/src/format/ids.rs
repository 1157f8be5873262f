//! The ids of the log: streams, segments, records.

use super::{FormatError, crc64};
use std::fmt;
use std::str::FromStr;

/// A logical stream: a random number that is drawn when the log is created, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The id that a stream of this name got before ids were random: the checksum of the
    /// name's bytes. It finds what was archived then, and says nothing about other logs.
    pub fn legacy_of_name(name: &str) -> Self {
        Self(crc64(name.as_bytes()).max(1))
    }

    /// An id from a random number; `None` for zero, which is what an unwritten header
    /// holds.
    pub const fn from_random(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// Sixteen hexadecimal digits, as in object keys.
impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A segment of a stream; ids grow by one with each segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(u64);

impl SegmentId {
    /// The last segment whose records a [`RecordId`] can name. A log creates no
    /// segment after it.
    pub const MAX: Self = Self(u32::MAX as u64);

    /// The id with this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The id as a number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The id as it stands in a [`RecordId`]: its low half. Exact up to
    /// [`SegmentId::MAX`].
    pub const fn as_u32(self) -> u32 {
        self.0 as u32
    }

    /// The id after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Where a record is: `segment_index << 32 | byte offset in the segment's file`.
///
/// Ids order as the records do.
///
/// ```
/// use aof2_core::RecordId;
/// let id = RecordId::from_parts(3, 64);
/// assert_eq!((id.segment_index(), id.segment_offset()), (3, 64));
/// assert_eq!(id.to_string().parse::<RecordId>()?, id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u64);

impl RecordId {
    /// The record at `segment_offset` of segment `segment_index`.
    #[inline]
    pub const fn from_parts(segment_index: u32, segment_offset: u32) -> Self {
        Self((segment_index as u64) << 32 | segment_offset as u64)
    }

    /// The id with this packed value.
    #[inline]
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// The packed value.
    #[inline]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// The segment's index: [`SegmentId::as_u32`] of its id.
    #[inline]
    pub const fn segment_index(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The record's first byte in the segment's file.
    #[inline]
    pub const fn segment_offset(self) -> u32 {
        self.0 as u32
    }
}

/// `segment:offset`, both decimal.
impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment_index(), self.segment_offset())
    }
}

/// Reads `segment:offset` or the packed value as one decimal number.
impl FromStr for RecordId {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let bad = FormatError::BadField {
            field: "record_id",
            reason: "expected segment:offset or a packed number, in decimal",
        };
        let id = match text.split_once(':') {
            Some((segment, offset)) => decimal(segment)
                .zip(decimal(offset))
                .map(|(segment, offset)| Self::from_parts(segment, offset)),
            None => decimal(text).map(Self),
        };
        id.ok_or(bad)
    }
}

/// A number of nothing but digits; `parse` alone would take a sign.
fn decimal<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
