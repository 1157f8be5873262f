//! A chunk header that decodes encodes to the same bytes, and a walk over the records
//! behind it stays inside the chunk and meets only records that encode the same.
#![no_main]

use aof2_core::format::manifest::{CHUNK_HEADER_LEN, ChunkHeader, ManifestRecord};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = ChunkHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes[..CHUNK_HEADER_LEN]);
        assert!(header.committed_len >= CHUNK_HEADER_LEN as u64);
        assert!(header.committed_len <= header.tail_offset);
        assert!(header.committed_len.is_multiple_of(8) && header.tail_offset.is_multiple_of(8));
    }
    let mut rest = bytes.get(CHUNK_HEADER_LEN..).unwrap_or_default();
    while let Ok((record, len)) = ManifestRecord::decode(rest) {
        let mut again = Vec::new();
        record.encode(&mut again).unwrap();
        assert_eq!(again, rest[..len]);
        rest = &rest[len..];
    }
});
