//! The file `stream` at a log's root: which stream this directory holds.
//!
//! Text, so that a person can read it; lines end in LF:
//!
//! ```text
//! aof2-stream 1
//! name <the name, percent-encoded utf-8>
//! stream_id <16 hexadecimal digits>
//! format full|compact
//! created_at_ns <decimal>
//! crc64 <16 hexadecimal digits, over all bytes of the lines before>
//! ```
//!
//! That of a fork has version 2 and, before the checksum, the line
//! `lineage <16 hexadecimal digits>`: the checksum of its [lineage](super::Lineage) file.
//! Programs that know only version 1 refuse it, and would not find inherited records. It
//! stays within the bytes that they read, so that they do not take it for damaged.
//!
//! There is exactly one way to write an identity. A file that says the same
//! thing differently was not written by us and is refused.

use super::{FormatError, SegmentFormat, StreamId, crc64};
use std::fmt::Write as _;

const MAGIC: &str = "aof2-stream ";
const VERSION: u32 = 1;
const FORK_VERSION: u32 = 2;
const LINEAGE_KEY: &str = "lineage ";
const CRC_KEY: &str = "crc64 ";

/// The longest name, in bytes.
pub const STREAM_NAME_LEN_MAX: usize = 255;
/// No identity file is longer; a reader need not load more.
pub const STREAM_IDENTITY_LEN_MAX: usize = 1024;

/// Which stream a directory holds, written once when the log is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamIdentity {
    /// The name given by the user; see [`validate_name`].
    pub name: String,
    /// The id in every segment header and every record checksum.
    pub stream_id: StreamId,
    /// The layout the writer uses for new segments.
    pub format: SegmentFormat,
    /// When the log was created, UTC nanoseconds.
    pub created_at_ns: u64,
    /// Of a fork: the checksum of its lineage file.
    pub lineage: Option<u64>,
}

impl StreamIdentity {
    /// The file's bytes. The name is one that [`validate_name`] accepts.
    pub fn encode(&self) -> Vec<u8> {
        let version = if self.lineage.is_some() { FORK_VERSION } else { VERSION };
        let mut text = format!("{MAGIC}{version}\nname ");
        percent_encode(&self.name, &mut text);
        let Self { stream_id, format, created_at_ns, .. } = self;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\nstream_id {stream_id}\nformat {format}\ncreated_at_ns {created_at_ns}\n"
        );
        if let Some(lineage) = self.lineage {
            let _ = writeln!(text, "{LINEAGE_KEY}{lineage:016x}");
        }
        let crc = crc64(text.as_bytes());
        let _ = writeln!(text, "{CRC_KEY}{crc:016x}");
        text.into_bytes()
    }

    /// The identity in the file's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let first_line = check_first_line(bytes);
        if matches!(first_line, Err(FormatError::UnsupportedVersion { .. })) {
            // A damaged digit is damage, not a newer version.
            check_crc_line(bytes)?;
        }
        first_line?;
        let text = check_crc_line(bytes)?;
        let mut lines = text.lines().skip(1);
        let name = percent_decode(value(lines.next(), "name ", "name")?)?;
        validate_name(&name)?;
        let identity = Self {
            name,
            stream_id: stream_id(value(lines.next(), "stream_id ", "stream_id")?)?,
            format: value(lines.next(), "format ", "format")?.parse()?,
            created_at_ns: value(lines.next(), "created_at_ns ", "created_at_ns")?
                .parse()
                .map_err(|_| bad("created_at_ns", "not a decimal number"))?,
            lineage: match lines.next().map(|line| line.strip_prefix(LINEAGE_KEY)) {
                None => None,
                Some(checksum) => Some(
                    checksum
                        .and_then(hexadecimal)
                        .ok_or(bad("lineage", "not 16 hexadecimal digits"))?,
                ),
            },
        };
        // One comparison covers signs, leading zeros, letter case, needless
        // escapes and anything after the last line.
        if identity.encode() != bytes {
            return Err(bad("identity", "not in canonical form"));
        }
        Ok(identity)
    }
}

/// Whether a stream may have this name: 1 to 255 bytes, no control characters.
pub fn validate_name(name: &str) -> Result<(), FormatError> {
    if name.is_empty() {
        return Err(bad("name", "empty"));
    }
    if name.len() > STREAM_NAME_LEN_MAX {
        return Err(bad("name", "longer than 255 bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err(bad("name", "has a control character"));
    }
    Ok(())
}

/// Magic and version come before the checksum: another version may have another.
fn check_first_line(bytes: &[u8]) -> Result<(), FormatError> {
    let Some(rest) = bytes.strip_prefix(MAGIC.as_bytes()) else {
        let Some(found) = bytes.first_chunk::<8>() else {
            return Err(FormatError::TooShort { needed: MAGIC.len(), available: bytes.len() });
        };
        return Err(FormatError::BadMagic { found: u64::from_be_bytes(*found) });
    };
    if bytes.len() > STREAM_IDENTITY_LEN_MAX {
        return Err(bad("identity", "longer than 1024 bytes"));
    }
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let version = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
    match version {
        Some(VERSION | FORK_VERSION) => Ok(()),
        Some(found) => Err(FormatError::UnsupportedVersion { found }),
        None => Err(bad("version", "not a decimal number")),
    }
}

/// The text before the `crc64` line, which has been checked.
pub(super) fn check_crc_line(bytes: &[u8]) -> Result<&str, FormatError> {
    const LINE_LEN: usize = CRC_KEY.len() + 16 + 1;
    let (body, line) = bytes.split_at(bytes.len().saturating_sub(LINE_LEN));
    let found = std::str::from_utf8(line)
        .ok()
        .and_then(|line| line.strip_prefix(CRC_KEY)?.strip_suffix('\n'))
        .and_then(hexadecimal)
        .ok_or(bad("crc64", "missing or malformed"))?;
    let expected = crc64(body);
    if expected != found {
        return Err(FormatError::BadChecksum { expected, found });
    }
    std::str::from_utf8(body).map_err(|_| bad("identity", "not utf-8"))
}

fn value<'a>(
    line: Option<&'a str>,
    key: &str,
    field: &'static str,
) -> Result<&'a str, FormatError> {
    line.and_then(|line| line.strip_prefix(key)).ok_or(bad(field, "missing"))
}

pub(super) fn stream_id(text: &str) -> Result<StreamId, FormatError> {
    match hexadecimal(text) {
        Some(0) => Err(bad("stream_id", "zero")),
        Some(id) => Ok(StreamId::from_u64(id)),
        None => Err(bad("stream_id", "not 16 hexadecimal digits")),
    }
}

pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    let exact = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    exact.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// Letters, digits and `-._~` stand for themselves, as in a URL.
pub(super) fn percent_encode(name: &str, text: &mut String) {
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
}

pub(super) fn percent_decode(text: &str) -> Result<String, FormatError> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        let (digits, after) =
            rest.split_first_chunk::<2>().ok_or(bad("name", "incomplete escape"))?;
        let escaped = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .ok_or(bad("name", "malformed escape"))?;
        name.push(escaped);
        rest = after;
    }
    String::from_utf8(name).map_err(|_| bad("name", "not utf-8"))
}

pub(super) const fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}
