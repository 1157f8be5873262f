//! How far a reader of a catalog's change feed has got: the file `cursors/{name}.cursor`.
//!
//! Text in exactly one form:
//!
//! ```text
//! aof2-cursor 1
//! stream_id 1122334455667788
//! next_generation 12
//! seen_generation 15
//! updated_ms 1700000000000
//! crc64 0123456789abcdef
//! ```

use super::{FormatError, crc64};

/// The longest cursor file.
pub const CURSOR_FILE_LEN_MAX: usize = 192;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorFile {
    /// The operation log whose batches it counts.
    pub stream_id: u64,
    /// First generation that was not acknowledged; [`CursorFile::FORGOTTEN`] if the reader
    /// gave its place up.
    pub next_generation: u64,
    /// The last batch that its reader knew of when it wrote this.
    pub seen_generation: u64,
    /// When that was written.
    pub updated_ms: u64,
}

impl CursorFile {
    /// The place of a reader for which nothing is to be kept.
    pub const FORGOTTEN: u64 = u64::MAX;

    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let Self { stream_id, next_generation, seen_generation, updated_ms } = self;
        let text = format!(
            "aof2-cursor 1\nstream_id {stream_id:016x}\nnext_generation {next_generation}\n\
             seen_generation {seen_generation}\nupdated_ms {updated_ms}\n"
        );
        let crc = crc64(text.as_bytes());
        format!("{text}crc64 {crc:016x}\n").into_bytes()
    }

    /// What these bytes say.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bad = FormatError::BadField { field: "cursor", reason: "not a cursor file" };
        let text = std::str::from_utf8(bytes).map_err(|_| bad.clone())?;
        let cursor = Self::parse(text);
        cursor.filter(|cursor| cursor.encode() == bytes).ok_or(bad)
    }

    /// What the lines say, whatever their checksum is.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().skip(1);
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        Some(Self {
            stream_id: u64::from_str_radix(value("stream_id")?, 16).ok()?,
            next_generation: value("next_generation")?.parse().ok()?,
            seen_generation: value("seen_generation")?.parse().ok()?,
            updated_ms: value("updated_ms")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its checksum was not made by the code under test.
    const GOLDEN: &str = "aof2-cursor 1\nstream_id 1122334455667788\nnext_generation 12\n\
                          seen_generation 15\nupdated_ms 1700000000000\ncrc64 95f0c3f37760df9a\n";

    #[test]
    fn a_cursor_file_has_one_form_and_every_change_is_refused() {
        let cursor = CursorFile {
            stream_id: 0x1122_3344_5566_7788,
            next_generation: 12,
            seen_generation: 15,
            updated_ms: 1_700_000_000_000,
        };
        let bytes = cursor.encode();
        assert_eq!(String::from_utf8_lossy(&bytes), GOLDEN);
        assert!(bytes.len() <= CURSOR_FILE_LEN_MAX);
        assert_eq!(CursorFile::decode(&bytes), Ok(cursor));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(CursorFile::decode(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(CursorFile::decode(&bytes[..len]).is_err(), "cut at {len}");
        }
        let longest = CursorFile {
            stream_id: u64::MAX,
            next_generation: u64::MAX,
            seen_generation: u64::MAX,
            updated_ms: u64::MAX,
        };
        assert!(longest.encode().len() <= CURSOR_FILE_LEN_MAX);
    }
}
