//! A warm file's name, a kept end's or a cold object's key that parses is written the same way, leads
//! nowhere else, and is no other file's name.
#![no_main]

use aof2_core::format::{
    ArchiveFileName, COLD_KEY_LEN_MAX, ColdKey, ColdTailName, SegmentFileName, WarmFileName,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let names = [
        WarmFileName::parse(text).map(|name| name.format()),
        ColdTailName::parse(text).map(|name| name.to_string()),
        SegmentFileName::parse(text).map(|name| name.format()),
        ArchiveFileName::parse(text).map(|name| name.format()),
        ColdKey::parse(text).map(|key| key.to_string()),
    ];
    assert!(names.iter().flatten().count() <= 1);
    for name in names.into_iter().flatten() {
        assert_eq!(name, text);
    }
    if let Some(key) = ColdKey::parse(text) {
        assert!(text.len() <= COLD_KEY_LEN_MAX);
        assert!(!text.chars().any(char::is_control));
        assert!(text.split('/').all(|part| !matches!(part, "" | "." | "..")));
        assert!(text.starts_with(&ColdKey::stream_prefix(key.prefix(), key.stream_id()).unwrap()));
    }
});
