//! An identity that decodes has a valid name and encodes to the same bytes.
#![no_main]

use aof2_core::format::{StreamIdentity, crc64, validate_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The same text under a valid checksum line.
    let end = bytes.windows(7).position(|key| key == b"\ncrc64 ").map_or(bytes.len(), |at| at + 1);
    let text = &bytes[..end];
    let line = format!("crc64 {:016x}\n", crc64(text));
    check(&[text, line.as_bytes()].concat());
});

fn check(bytes: &[u8]) {
    if let Ok(identity) = StreamIdentity::decode(bytes) {
        assert_eq!(validate_name(&identity.name), Ok(()));
        assert_eq!(identity.encode(), bytes);
    }
}
