//! What a fork says of its ancestors, and what they keep of it: bytes from anywhere.

#![no_main]

use aof2_core::format::{Hold, Lineage};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(lineage) = Lineage::decode(bytes) {
        assert_eq!(lineage.encode(), bytes);
    }
    if let Ok(hold) = Hold::decode(bytes) {
        assert_eq!(hold.encode(), bytes);
    }
    // Most bytes have no valid checksum: these have one.
    let sum = aof2_core::format::crc64(bytes);
    let sealed = [bytes, format!("crc64 {sum:016x}\n").as_bytes()].concat();
    if let Ok(lineage) = Lineage::decode(&sealed) {
        assert_eq!(lineage.encode(), sealed);
    }
    if let Ok(hold) = Hold::decode(&sealed) {
        assert_eq!(hold.encode(), sealed);
    }
});
