//! Names of warm files and keys of cold objects.
//!
//! ```text
//! warm/{segment_id:020}_{base_offset:020}_{sealed_at_ns:020}.zst
//! cold/{segment_id:020}_{base_offset:020}_{sealed_at_ns:020}_{epoch:08x}.tail
//! {prefix}/{stream_id:016x}/{segment_id:020}-{epoch:08x}.zst
//! ```
//!
//! As with segments, parsing is exact: a name that would not be written this way is
//! somebody else's. A key is never used twice: a segment that is uploaded again gets
//! another epoch.

use std::fmt;

use super::ArtifactSummary;
use crate::format::name::{hexadecimal, number};
use crate::format::{FormatError, SegmentId, StreamId};

const SUFFIX: &str = ".zst";
const TAIL_SUFFIX: &str = ".tail";
/// `/`, 16 digits of stream, `/`, 20 digits of segment, `-`, 8 digits of epoch, `.zst`.
const KEY_TAIL_LEN: usize = 1 + STREAM_DIGITS + 1 + 20 + 1 + EPOCH_DIGITS + SUFFIX.len();
const STREAM_DIGITS: usize = 16;
const EPOCH_DIGITS: usize = 8;
/// Longest key of a cold object, in bytes: what S3 takes.
pub const COLD_KEY_LEN_MAX: usize = 1024;

const _: () = assert!(KEY_TAIL_LEN == 51);

/// `warm/{segment_id}_{base_offset}_{sealed_at_ns}.zst`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WarmFileName {
    /// The segment.
    pub segment_id: SegmentId,
    /// Stream bytes (headers and records) before this segment.
    pub base_offset: u64,
    /// When the segment was sealed, UTC nanoseconds.
    pub sealed_at_ns: u64,
}

impl WarmFileName {
    /// The file name.
    pub fn format(&self) -> String {
        self.to_string()
    }

    /// The name of this segment's artifact.
    pub fn of(summary: &ArtifactSummary) -> Self {
        Self {
            segment_id: summary.segment_id,
            base_offset: summary.base_offset,
            sealed_at_ns: summary.sealed_at_ns,
        }
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
            sealed_at_ns: number(parts.next()?)?,
        };
        parts.next().is_none().then_some(parsed)
    }
}

/// `cold/{segment_id}_{base_offset}_{sealed_at_ns}_{epoch}.tail`: keeps the end of an
/// artifact that is in the object store, its index frame and seek table. With the
/// epoch it names the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColdTailName {
    /// The artifact.
    pub artifact: WarmFileName,
    /// Which of the segment's uploads it is.
    pub epoch: u32,
}

impl ColdTailName {
    /// The parts of `name`, or `None` when it is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        let (artifact, epoch) = name.strip_suffix(TAIL_SUFFIX)?.rsplit_once('_')?;
        let epoch = hexadecimal(epoch, EPOCH_DIGITS)? as u32;
        Some(Self { artifact: WarmFileName::parse_stem(artifact)?, epoch })
    }
}

impl fmt::Display for ColdTailName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WarmFileName { segment_id, base_offset, sealed_at_ns } = self.artifact;
        let epoch = self.epoch;
        write!(f, "{segment_id:020}_{base_offset:020}_{sealed_at_ns:020}_{epoch:08x}{TAIL_SUFFIX}")
    }
}

impl fmt::Display for WarmFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment_id, base_offset, sealed_at_ns } = self;
        write!(f, "{segment_id:020}_{base_offset:020}_{sealed_at_ns:020}{SUFFIX}")
    }
}

/// `{prefix}/{stream_id}/{segment_id}-{epoch}.zst`
///
/// A prefix has no empty part, none that is `.` or `..`, and no control character, so
/// that a key means the same to every store and to a file system. It may be empty; then
/// the key starts with the stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColdKey {
    prefix: String,
    stream_id: StreamId,
    segment_id: SegmentId,
    epoch: u32,
}

impl ColdKey {
    /// The key of a segment under a prefix. One slash at the end of the prefix makes no
    /// difference.
    pub fn new(
        prefix: &str,
        stream_id: StreamId,
        segment_id: SegmentId,
        epoch: u32,
    ) -> Result<Self, FormatError> {
        let prefix = Self::check_prefix(prefix)?.to_owned();
        Ok(Self { prefix, stream_id, segment_id, epoch })
    }

    /// The prefix as keys have it, or why it cannot be one.
    pub fn check_prefix(prefix: &str) -> Result<&str, FormatError> {
        let prefix = prefix.strip_suffix('/').filter(|rest| !rest.is_empty()).unwrap_or(prefix);
        let reason = if prefix.is_empty() {
            return Ok(prefix);
        } else if prefix.len() > COLD_KEY_LEN_MAX - KEY_TAIL_LEN {
            "longer than an object's key can be"
        } else if prefix.chars().any(char::is_control) {
            "it has a control character"
        } else if prefix.split('/').any(|part| matches!(part, "" | "." | "..")) {
            "it has an empty part, or one that is . or .."
        } else {
            return Ok(prefix);
        };
        Err(FormatError::BadField { field: "prefix", reason })
    }

    /// What the keys of a stream's objects start with, for listing them.
    pub fn stream_prefix(prefix: &str, stream_id: StreamId) -> Result<String, FormatError> {
        let prefix = Self::check_prefix(prefix)?;
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(format!("{prefix}{slash}{stream_id}/"))
    }

    /// The parts of a key, or `None` when it is not exactly such a key.
    pub fn parse(key: &str) -> Option<Self> {
        let (rest, object) = key.rsplit_once('/')?;
        let (prefix, stream) = rest.rsplit_once('/').unwrap_or(("", rest));
        let (segment, epoch) = object.strip_suffix(SUFFIX)?.split_once('-')?;
        let parsed = Self::new(
            prefix,
            StreamId::from_u64(hexadecimal(stream, STREAM_DIGITS)?),
            SegmentId::from_u64(number(segment)?),
            hexadecimal(epoch, EPOCH_DIGITS)? as u32,
        )
        .ok()?;
        // A slash too many is the one thing that the parts do not show.
        (parsed.to_string() == key).then_some(parsed)
    }

    /// Where the stream's objects are.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The stream.
    pub fn stream_id(&self) -> StreamId {
        self.stream_id
    }

    /// The segment.
    pub fn segment_id(&self) -> SegmentId {
        self.segment_id
    }

    /// Tells the uploads of one segment apart.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
}

impl fmt::Display for ColdKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, stream_id, segment_id, epoch } = self;
        let slash = if prefix.is_empty() { "" } else { "/" };
        write!(f, "{prefix}{slash}{stream_id}/{segment_id:020}-{epoch:08x}{SUFFIX}")
    }
}
