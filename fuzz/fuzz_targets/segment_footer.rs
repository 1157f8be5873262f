//! A footer that decodes encodes to the same bytes and has a possible length.
#![no_main]

use aof2_core::format::{
    SEGMENT_BYTES_MAX, SegmentFooter, SegmentFooterV1, SegmentFooterV2, SegmentFormat,
};
use libfuzzer_sys::fuzz_target;

#[path = "reseal.rs"]
mod reseal;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&reseal::block(bytes));
});

fn check(bytes: &[u8]) {
    if let Ok(footer) = SegmentFooterV2::decode(bytes) {
        assert_eq!(footer.encode(), bytes[..64]);
    }
    if let Ok(footer) = SegmentFooterV1::decode(bytes) {
        assert_eq!(footer.encode(), bytes[..64]);
    }
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        match SegmentFooter::decode(format, bytes) {
            Ok(Some(footer)) => {
                assert!((64..=SEGMENT_BYTES_MAX - 64).contains(&footer.durable_bytes));
                assert!(footer.durable_bytes.is_multiple_of(8));
                assert_eq!(SegmentFooter::decode(format, &footer.encode()), Ok(Some(footer)));
            }
            Ok(None) => assert!(bytes[..64].iter().all(|byte| *byte == 0)),
            Err(_) => {}
        }
    }
}
