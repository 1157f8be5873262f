//! A file name or record id that parses is written the same way, and no name
//! parses as two kinds of file.
#![no_main]

use aof2_core::format::{ArchiveFileName, RecordId, SegmentFileName, SpareFileName};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let kinds = [
        SegmentFileName::parse(text).map(|name| name.format()),
        ArchiveFileName::parse(text).map(|name| name.format()),
        SpareFileName::parse(text).map(|name| name.format()),
    ];
    assert!(kinds.iter().flatten().count() <= 1);
    for name in kinds.into_iter().flatten() {
        assert_eq!(name, text);
    }
    if let Ok(id) = text.parse::<RecordId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(RecordId::from_u64(id.as_u64()), id);
    }
});
