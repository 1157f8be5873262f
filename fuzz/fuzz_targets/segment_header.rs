//! A header that decodes encodes to the same bytes, whatever the version.
#![no_main]

use aof2_core::format::{SegmentHeader, SegmentHeaderV1, SegmentHeaderV2};
use libfuzzer_sys::fuzz_target;

#[path = "reseal.rs"]
mod reseal;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // Past the checksum, where hostile content is.
    check(&reseal::block(bytes));
});

fn check(bytes: &[u8]) {
    if let Ok(header) = SegmentHeaderV2::decode(bytes) {
        assert_eq!(header.encode(), bytes[..64]);
    }
    if let Ok(header) = SegmentHeaderV1::decode(bytes) {
        assert_eq!(header.encode(), bytes[..64]);
    }
    match SegmentHeader::decode(bytes) {
        Ok(Some(header)) => assert_eq!(SegmentHeader::decode(&header.encode()), Ok(Some(header))),
        Ok(None) => assert!(bytes[..64].iter().all(|byte| *byte == 0)),
        Err(_) => {}
    }
}
