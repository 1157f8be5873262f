//! File names of segments.
//!
//! Every number has twenty digits, so that names sort as their numbers do and a
//! directory listing is in stream order. Parsing is exact: a name that would not
//! be written this way is somebody else's file.

use super::SegmentId;
use std::fmt;

const DIGITS: usize = 20;
const SUFFIX: &str = ".seg";
const INDEX_SUFFIX: &str = ".idx";
const SPARE_PREFIX: &str = "spare_";
const SPARE_SUFFIX: &str = ".seg.tmp";

/// `segments/{segment_id}_{base_offset}_{created_at_ns}.seg`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentFileName {
    /// The segment.
    pub segment_id: SegmentId,
    /// Stream bytes (headers and records) before this segment.
    pub base_offset: u64,
    /// When the segment became active, UTC nanoseconds.
    pub created_at_ns: u64,
}

impl SegmentFileName {
    /// The file name.
    pub fn format(&self) -> String {
        self.to_string()
    }

    /// Name of the segment's stored index, in `index/`.
    pub fn index_name(&self) -> String {
        let Self { segment_id, base_offset, created_at_ns } = self;
        format!("{segment_id:020}_{base_offset:020}_{created_at_ns:020}{INDEX_SUFFIX}")
    }

    /// The segment whose stored index has this name.
    pub fn parse_index(name: &str) -> Option<Self> {
        Self::parse_stem(name.strip_suffix(INDEX_SUFFIX)?)
    }

    /// The parts of `name`, or `None` when it is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::parse_stem(name.strip_suffix(SUFFIX)?)
    }

    fn parse_stem(stem: &str) -> Option<Self> {
        let mut parts = stem.split('_');
        let parsed = Self {
            segment_id: SegmentId::from_u64(number(parts.next()?)?),
            base_offset: number(parts.next()?)?,
            created_at_ns: number(parts.next()?)?,
        };
        parts.next().is_none().then_some(parsed)
    }
}

impl fmt::Display for SegmentFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment_id, base_offset, created_at_ns } = self;
        write!(f, "{segment_id:020}_{base_offset:020}_{created_at_ns:020}{SUFFIX}")
    }
}

/// `archive/{segment_id}_{sealed_at_ns}.seg`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArchiveFileName {
    /// The segment.
    pub segment_id: SegmentId,
    /// When the segment was sealed, UTC nanoseconds.
    pub sealed_at_ns: u64,
}

impl ArchiveFileName {
    /// The file name.
    pub fn format(&self) -> String {
        self.to_string()
    }

    /// The parts of `name`, or `None` when it is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        let (segment_id, sealed_at_ns) = name.strip_suffix(SUFFIX)?.split_once('_')?;
        Some(Self {
            segment_id: SegmentId::from_u64(number(segment_id)?),
            sealed_at_ns: number(sealed_at_ns)?,
        })
    }
}

impl fmt::Display for ArchiveFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment_id, sealed_at_ns } = self;
        write!(f, "{segment_id:020}_{sealed_at_ns:020}{SUFFIX}")
    }
}

/// `segments/spare_{ordinal}.seg.tmp`: a prepared file that no segment uses yet.
///
/// It does not end in `.seg`, so nothing that lists segments can take it for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpareFileName {
    /// Tells the spares of one log apart.
    pub ordinal: u64,
}

impl SpareFileName {
    /// The file name.
    pub fn format(&self) -> String {
        self.to_string()
    }

    /// The parts of `name`, or `None` when it is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        let ordinal = name.strip_prefix(SPARE_PREFIX)?.strip_suffix(SPARE_SUFFIX)?;
        Some(Self { ordinal: number(ordinal)? })
    }
}

impl fmt::Display for SpareFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SPARE_PREFIX}{:020}{SPARE_SUFFIX}", self.ordinal)
    }
}

/// Exactly twenty digits that fit a `u64`.
pub(super) fn number(text: &str) -> Option<u64> {
    let exact = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    exact.then(|| text.parse().ok()).flatten()
}

/// Exactly this many digits, in lower case.
pub(super) fn hexadecimal(text: &str, digits: usize) -> Option<u64> {
    let exact =
        text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    exact.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}
