//! What a bucket says of names and writers: a claim that decodes encodes to the same bytes,
//! a key that parses is written the same way, and the key of a name is one part of a key.
#![no_main]

use aof2_core::format::{LastClaim, WriterClaim, WriterKey, crc64, name_key, validate_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The same text under a valid checksum line.
    let end = bytes.windows(7).position(|key| key == b"\ncrc64 ").map_or(bytes.len(), |at| at + 1);
    let text = &bytes[..end];
    let line = format!("crc64 {:016x}\n", crc64(text));
    check(&[text, line.as_bytes()].concat());
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(key) = WriterKey::parse(text) {
        assert_eq!(key.format(), text);
    }
    if validate_name(text).is_ok() {
        let key = name_key(text);
        let part = key.strip_prefix("names/").unwrap();
        assert!(part.len() < 255 && !part.contains('/') && part.bytes().any(|b| b != b'.'));
    }
});

fn check(bytes: &[u8]) {
    if let Ok(claim) = WriterClaim::decode(bytes) {
        assert_eq!(claim.encode(), bytes);
    }
    if let Ok(last) = LastClaim::decode(bytes) {
        assert_eq!(last.encode(), bytes);
    }
}
