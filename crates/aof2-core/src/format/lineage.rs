//! The file `lineage.{checksum}` of a fork: whose records it begins with.
//!
//! Text, so that a person can read it; lines end in LF, numbers are decimal unless said
//! otherwise:
//!
//! ```text
//! aof2-lineage 1
//! stream_id <16 hexadecimal digits: the fork's own>
//! root <the way from the fork's directory to its root, percent-encoded>
//! start <segment> <offset> <bytes> <timestamp_ms>
//! origin <id> <first_segment> <last_segment> <cut> <first_offset> <end_offset>
//!        <last_position> <last_crc64> <name> <path>      (one line, oldest first, 0 to 64)
//! crc64 <16 hexadecimal digits, over all bytes of the lines before>
//! ```
//!
//! `start` is where the fork's own segments begin. The stream file of a fork, version 2,
//! has the checksum in its line `lineage`, so that the two always fit.

use std::fmt::Write as _;

use super::stream::{bad, check_crc_line, hexadecimal, percent_decode, percent_encode, stream_id};
use super::{FormatError, RecordId, SEGMENT_HEADER_LEN, SegmentId, StreamId, crc64};

const FIRST_LINE: &str = "aof2-lineage 1";
const MAGIC: &str = "aof2-lineage ";
const NAME_PREFIX: &str = "lineage.";

/// Ancestors that a fork may have.
pub const LINEAGE_DEPTH_MAX: usize = 64;
/// No lineage file is longer; a reader need not load more.
pub const LINEAGE_LEN_MAX: usize = 1 << 20;

/// The segments of one ancestor that a fork begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    /// The log whose records they are.
    pub origin: StreamId,
    /// Its first segment that is part of the fork.
    pub first_segment: SegmentId,
    /// The last one, of which the part before `cut` counts.
    pub last_segment: SegmentId,
    /// First byte of the last segment that is not part of the fork.
    pub cut: u32,
    /// Logical offset of the first record.
    pub first_offset: u64,
    /// First logical offset behind them.
    pub end_offset: u64,
    /// Where the last record is, in the last segment.
    pub last_position: u32,
    /// Checksum over the bytes of the last record.
    pub last_crc64: u64,
    /// What the origin was called.
    pub name: String,
    /// The way from the fork's directory to the origin's, when the fork was made.
    pub path: String,
}

/// Where the fork's own segments begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnStart {
    /// Number of the first one.
    pub segment: SegmentId,
    /// Logical offset of its first record.
    pub offset: u64,
    /// Stream bytes before it.
    pub bytes: u64,
    /// Timestamp of the last record before it; 0 if there is none.
    pub timestamp_ms: u64,
}

/// Whose records a fork begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The fork.
    pub stream_id: StreamId,
    /// The way from its directory to its root.
    pub root: String,
    /// Where its own segments begin.
    pub start: OwnStart,
    /// What it inherits, oldest first.
    pub origins: Vec<Inheritance>,
}

impl Lineage {
    /// Name of the file with these bytes' checksum.
    pub fn file_name(checksum: u64) -> String {
        format!("{NAME_PREFIX}{checksum:016x}")
    }

    /// The checksum in the name of a lineage file.
    pub fn parse_file_name(name: &str) -> Option<u64> {
        hexadecimal(name.strip_prefix(NAME_PREFIX)?)
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("{FIRST_LINE}\nstream_id {}\nroot ", self.stream_id);
        percent_encode(&self.root, &mut text);
        let OwnStart { segment, offset, bytes, timestamp_ms } = self.start;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\nstart {segment} {offset} {bytes} {timestamp_ms}");
        for origin in &self.origins {
            let Inheritance { origin: id, first_segment, last_segment, cut, .. } = origin;
            let Inheritance { first_offset, end_offset, last_position, last_crc64, .. } = origin;
            let _ = write!(
                text,
                "origin {id} {first_segment} {last_segment} {cut} {first_offset} {end_offset} \
                 {last_position} {last_crc64:016x} "
            );
            percent_encode(&origin.name, &mut text);
            text.push(' ');
            percent_encode(&origin.path, &mut text);
            text.push('\n');
        }
        let crc = crc64(text.as_bytes());
        let _ = writeln!(text, "crc64 {crc:016x}");
        text.into_bytes()
    }

    /// The checksum that the stream file has of these bytes.
    pub fn checksum(&self) -> u64 {
        crc64(&self.encode())
    }

    /// The lineage in the file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let text = check_crc_line(bytes)?;
        let mut lines = text.lines();
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) if line.starts_with(MAGIC) => {
                let version = line[MAGIC.len()..].parse();
                let found = version.map_err(|_| bad("version", "not a decimal number"))?;
                return Err(FormatError::UnsupportedVersion { found });
            }
            _ => return Err(bad("lineage", "not a lineage file")),
        }
        let mut fields = |key: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(key));
            line.ok_or(bad("lineage", "a line is missing")).map(Fields::of)
        };
        let stream_id = fields("stream_id ")?.id()?;
        let root = fields("root ")?.text()?;
        let mut start = fields("start ")?;
        let start = OwnStart {
            segment: start.segment()?,
            offset: start.number()?,
            bytes: start.number()?,
            timestamp_ms: start.number()?,
        };
        let origins: Result<Vec<_>, _> = lines.map(decode_origin).collect();
        let lineage = Self { stream_id, root, start, origins: origins? };
        lineage.check()?;
        // One comparison covers signs, leading zeros, letter case and needless escapes.
        match lineage.encode() == bytes {
            true => Ok(lineage),
            false => Err(bad("lineage", "not in canonical form")),
        }
    }

    /// What is inherited must be one stretch that ends where the fork begins.
    fn check(&self) -> Result<(), FormatError> {
        if self.origins.len() > LINEAGE_DEPTH_MAX {
            return Err(bad("lineage", "more than 64 ancestors"));
        }
        let mut next: Option<(u64, u64)> = None;
        for origin in &self.origins {
            let first = (origin.first_segment.as_u64(), origin.first_offset);
            let is_whole = origin.first_segment <= origin.last_segment
                && origin.first_offset < origin.end_offset
                && origin.last_position >= SEGMENT_HEADER_LEN as u32
                && origin.last_position < origin.cut
                && origin.origin != self.stream_id;
            if !is_whole || next.is_some_and(|next| next != first) {
                return Err(bad("origin", "does not fit"));
            }
            next = Some((origin.last_segment.as_u64() + 1, origin.end_offset));
        }
        match next.is_none_or(|next| next == (self.start.segment.as_u64(), self.start.offset)) {
            true => Ok(()),
            false => Err(bad("start", "does not follow what is inherited")),
        }
    }

    /// First segment that is not the fork's own, and its first offset; the own start if
    /// nothing is inherited.
    pub fn first(&self) -> (SegmentId, u64) {
        let first = self.origins.first();
        first.map_or((self.start.segment, self.start.offset), |origin| {
            (origin.first_segment, origin.first_offset)
        })
    }

    /// The part of the lineage that ends before this record, which need not exist; `None`
    /// if the record lies in the fork's own segments.
    pub fn origin_of(&self, id: RecordId) -> Option<&Inheritance> {
        let segment = SegmentId::from_u64(u64::from(id.segment_index()));
        self.origins.iter().find(|o| (o.first_segment..=o.last_segment).contains(&segment))
    }
}

fn decode_origin(line: &str) -> Result<Inheritance, FormatError> {
    let line = line.strip_prefix("origin ").ok_or(bad("origin", "missing"))?;
    let mut fields = Fields::of(line);
    Ok(Inheritance {
        origin: fields.id()?,
        first_segment: fields.segment()?,
        last_segment: fields.segment()?,
        cut: fields.number()?,
        first_offset: fields.number()?,
        end_offset: fields.number()?,
        last_position: fields.number()?,
        last_crc64: fields.checksum()?,
        name: fields.text()?,
        path: fields.text()?,
    })
}

/// The fields of a line, which a space divides.
pub(super) struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        Self(line.split(' '))
    }

    fn next(&mut self) -> Result<&'a str, FormatError> {
        self.0.next().ok_or(bad("line", "a field is missing"))
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self) -> Result<T, FormatError> {
        self.next()?.parse().map_err(|_| bad("line", "not a decimal number"))
    }

    pub(super) fn segment(&mut self) -> Result<SegmentId, FormatError> {
        let number: u32 = self.number()?;
        Ok(SegmentId::from_u64(u64::from(number)))
    }

    pub(super) fn id(&mut self) -> Result<StreamId, FormatError> {
        stream_id(self.next()?)
    }

    pub(super) fn checksum(&mut self) -> Result<u64, FormatError> {
        hexadecimal(self.next()?).ok_or(bad("line", "not 16 hexadecimal digits"))
    }

    pub(super) fn text(&mut self) -> Result<String, FormatError> {
        percent_decode(self.next()?)
    }

    /// A word, of which the caller knows what it may be.
    pub(super) fn word(&mut self) -> Result<&'a str, FormatError> {
        self.next()
    }
}
