//! How far a reader of a catalog's change feed has got: the file `cursors/{name}.cursor`.
//!
//! Text in exactly one form:
//!
//! ```text
//! aof2-cursor 1
//! next_generation 12
//! updated_ms 1700000000000
//! crc64 0123456789abcdef
//! ```

use super::{FormatError, crc64};

/// The longest cursor file.
pub const CURSOR_FILE_LEN_MAX: usize = 128;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorFile {
    /// First generation that was not acknowledged.
    pub next_generation: u64,
    /// When that was written.
    pub updated_ms: u64,
}

impl CursorFile {
    /// The bytes of the file.
    pub fn encode(&self) -> Vec<u8> {
        let Self { next_generation, updated_ms } = self;
        let text =
            format!("aof2-cursor 1\nnext_generation {next_generation}\nupdated_ms {updated_ms}\n");
        let crc = crc64(text.as_bytes());
        format!("{text}crc64 {crc:016x}\n").into_bytes()
    }

    /// What these bytes say.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bad = FormatError::BadField { field: "cursor", reason: "not a cursor file" };
        let text = std::str::from_utf8(bytes).map_err(|_| bad.clone())?;
        let number = |line: &str, name: &str| line.strip_prefix(name)?.trim_start().parse().ok();
        let mut lines = text.lines();
        let _title = lines.next();
        let cursor = lines.next().zip(lines.next()).and_then(|(next, updated)| {
            Some(Self {
                next_generation: number(next, "next_generation")?,
                updated_ms: number(updated, "updated_ms")?,
            })
        });
        cursor.filter(|cursor| cursor.encode() == bytes).ok_or(bad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_file_has_one_form_and_every_change_is_refused() {
        let cursor = CursorFile { next_generation: 12, updated_ms: 1_700_000_000_000 };
        let bytes = cursor.encode();
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
        let longest = CursorFile { next_generation: u64::MAX, updated_ms: u64::MAX };
        assert!(longest.encode().len() <= CURSOR_FILE_LEN_MAX);
    }
}
