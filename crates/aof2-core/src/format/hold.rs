//! A file in `holds/` of a log: who else reads its segments, so that they stay.
//!
//! Text, so that a person can read it; lines end in LF:
//!
//! ```text
//! aof2-hold 1
//! origin <16 hexadecimal digits: the log that is held>
//! holder fork|snapshot <id> <name, percent-encoded> <path, percent-encoded>
//! segments <first> <last> <cut>
//! offsets <first> <end>
//! created_at_ms <decimal>
//! expires_at_ms <decimal>|-
//! state pending|held
//! crc64 <16 hexadecimal digits, over all bytes of the lines before>
//! ```
//!
//! The id of the holder is that of the fork, or of the log that the snapshot is of. `path`
//! is the way from the origin's directory to that log's.

use std::fmt::Write as _;

use super::lineage::Fields;
use super::stream::{bad, check_crc_line, percent_encode};
use super::{FormatError, SegmentId, StreamId, crc64};

const FIRST_LINE: &str = "aof2-hold 1";
const MAGIC: &str = "aof2-hold ";
const SUFFIX: &str = ".hold";

/// No such file is longer; a reader need not load more.
pub const HOLD_LEN_MAX: usize = 32 << 10;

/// What holds a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HolderKind {
    /// A log that begins with its records.
    Fork,
    /// A named position.
    Snapshot,
}

impl HolderKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Snapshot => "snapshot",
        }
    }
}

/// Who reads which segments of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The log that is held.
    pub origin: StreamId,
    /// What holds it.
    pub kind: HolderKind,
    /// The fork, or the log that the snapshot is of.
    pub holder: StreamId,
    /// Name of the fork or of the snapshot.
    pub name: String,
    /// The way from the origin's directory to the holder's.
    pub path: String,
    /// First segment.
    pub first_segment: SegmentId,
    /// Last segment, of which the part before `cut` is held; nothing if `cut` is 0.
    pub last_segment: SegmentId,
    /// First byte of the last segment that is not held.
    pub cut: u32,
    /// Logical offset of the first record.
    pub first_offset: u64,
    /// First logical offset behind them.
    pub end_offset: u64,
    /// When it was put there.
    pub created_at_ms: u64,
    /// When it no longer counts.
    pub expires_at_ms: Option<u64>,
    /// Whether the holder is known to exist. Until then it may have been cut off while it
    /// was made.
    pub is_pending: bool,
}

impl Hold {
    /// Whether the segment must stay for it.
    pub fn covers(&self, segment: SegmentId) -> bool {
        self.cut > 0 && (self.first_segment..=self.last_segment).contains(&segment)
    }

    /// Name of its file: one for each fork, and one for each snapshot of each log.
    pub fn file_name(&self) -> String {
        Self::file_name_of(self.kind, self.holder, &self.name)
    }

    /// Name of the file of such a hold.
    pub fn file_name_of(kind: HolderKind, holder: StreamId, name: &str) -> String {
        match kind {
            HolderKind::Fork => format!("fork-{holder}{SUFFIX}"),
            // Names may be longer than a file name, and have any character.
            HolderKind::Snapshot => {
                format!("snapshot-{holder}-{:016x}{SUFFIX}", crc64(name.as_bytes()))
            }
        }
    }

    /// Whether a file name is that of a hold.
    pub fn is_file_name(name: &str) -> bool {
        name.ends_with(SUFFIX)
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { origin, kind, holder, first_segment, last_segment, cut, .. } = self;
        let mut text = format!("{FIRST_LINE}\norigin {origin}\nholder {} {holder} ", kind.as_str());
        percent_encode(&self.name, &mut text);
        text.push(' ');
        percent_encode(&self.path, &mut text);
        let Self { first_offset, end_offset, created_at_ms, .. } = self;
        let expires = self.expires_at_ms.map_or("-".to_owned(), |ms| ms.to_string());
        let state = if self.is_pending { "pending" } else { "held" };
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\nsegments {first_segment} {last_segment} {cut}\noffsets {first_offset} {end_offset}\n\
             created_at_ms {created_at_ms}\nexpires_at_ms {expires}\nstate {state}\n"
        );
        let crc = crc64(text.as_bytes());
        let _ = writeln!(text, "crc64 {crc:016x}");
        text.into_bytes()
    }

    /// The hold in the file's bytes.
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
            _ => return Err(bad("hold", "not a hold")),
        }
        let mut fields = |key: &str| {
            let line = lines.next().and_then(|line| line.strip_prefix(key));
            line.ok_or(bad("hold", "a line is missing")).map(Fields::of)
        };
        let origin = fields("origin ")?.id()?;
        let mut holder = fields("holder ")?;
        let kind = match holder.word()? {
            "fork" => HolderKind::Fork,
            "snapshot" => HolderKind::Snapshot,
            _ => return Err(bad("holder", "neither fork nor snapshot")),
        };
        let (holder, name, path) = (holder.id()?, holder.text()?, holder.text()?);
        let mut segments = fields("segments ")?;
        let mut offsets = fields("offsets ")?;
        let hold = Self {
            origin,
            kind,
            holder,
            name,
            path,
            first_segment: segments.segment()?,
            last_segment: segments.segment()?,
            cut: segments.number()?,
            first_offset: offsets.number()?,
            end_offset: offsets.number()?,
            created_at_ms: fields("created_at_ms ")?.number()?,
            expires_at_ms: match fields("expires_at_ms ")?.word()? {
                "-" => None,
                word => Some(word.parse().map_err(|_| bad("expires_at_ms", "not a number"))?),
            },
            is_pending: match fields("state ")?.word()? {
                "pending" => true,
                "held" => false,
                _ => return Err(bad("state", "neither pending nor held")),
            },
        };
        match hold.encode() == bytes {
            true => Ok(hold),
            false => Err(bad("hold", "not in canonical form")),
        }
    }
}
