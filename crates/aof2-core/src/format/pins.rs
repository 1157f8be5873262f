//! The file `pins` at a log's root: segments that stay in the hot tier.
//!
//! Text, so that a person can read it; lines end in LF:
//!
//! ```text
//! aof2-pins 1
//! <segment id, decimal>            one line each, ascending
//! crc64 <16 hexadecimal digits, over all bytes of the lines before>
//! ```
//!
//! There is exactly one way to write it; anything else is refused.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{FormatError, SegmentId, crc64};

/// Name of the file.
pub const PINS_NAME: &str = "pins";
/// Most pins there can be; a reader need not load more.
pub const PINS_COUNT_MAX: usize = 65_536;
/// No such file is longer.
pub const PINS_LEN_MAX: usize = 64 + 21 * PINS_COUNT_MAX;

const FIRST_LINE: &str = "aof2-pins 1";

/// The file's bytes.
pub fn encode_pins(pins: &BTreeSet<SegmentId>) -> Vec<u8> {
    let mut text = format!("{FIRST_LINE}\n");
    for pin in pins.iter().take(PINS_COUNT_MAX) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", pin.as_u64());
    }
    let crc = crc64(text.as_bytes());
    let _ = writeln!(text, "crc64 {crc:016x}");
    text.into_bytes()
}

/// The pins in the file's bytes.
pub fn decode_pins(bytes: &[u8]) -> Result<BTreeSet<SegmentId>, FormatError> {
    let bad = |reason| FormatError::BadField { field: "pins", reason };
    let text = std::str::from_utf8(bytes).map_err(|_| bad("not utf-8"))?;
    let mut lines = text.lines();
    if lines.next() != Some(FIRST_LINE) {
        return Err(bad("not a file of pins, or of a newer version"));
    }
    let ids = lines.take_while(|line| !line.starts_with("crc64 "));
    let pins: Option<BTreeSet<_>> =
        ids.take(PINS_COUNT_MAX).map(|line| line.parse().ok().map(SegmentId::from_u64)).collect();
    let pins = pins.ok_or(bad("not a segment id"))?;
    // One comparison covers order, doubles, the checksum and what stands behind it.
    if encode_pins(&pins) != bytes {
        return Err(bad("damaged, or not in canonical form"));
    }
    Ok(pins)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pins_come_back_and_a_flipped_bit_is_noticed(
            ids in prop::collection::btree_set(any::<u64>(), 0..20), at: usize, bit in 0u8..8,
        ) {
            let pins: BTreeSet<_> = ids.into_iter().map(SegmentId::from_u64).collect();
            let mut bytes = encode_pins(&pins);
            prop_assert_eq!(decode_pins(&bytes).unwrap(), pins);
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            prop_assert!(decode_pins(&bytes).is_err());
        }
    }
}
