//! A snapshot that decodes encodes to the same bytes and survives being an index.
#![no_main]

use aof2_core::format::crc64;
use aof2_core::format::manifest::SnapshotImage;
use aof2_core::manifest::{ManifestIndex, ManifestPosition};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    check(&resealed(bytes));
});

fn check(bytes: &[u8]) {
    let Ok(image) = SnapshotImage::decode(bytes) else { return };
    assert_eq!(image.encode(), bytes);
    let position =
        ManifestPosition { chunk_index: image.chunk_index, chunk_offset: image.chunk_offset };
    let index = ManifestIndex::from_image(image.clone());
    assert_eq!(index.to_image(image.snapshot_id, position), image);
}

/// The same bytes with magic, version and a checksum that match, so that what is behind
/// them gets fuzzed too.
fn resealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= 24 {
        bytes[..8].copy_from_slice(&0x414F_4632_534E_4150_u64.to_le_bytes());
        bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
        bytes[12..16].copy_from_slice(&128_u32.to_le_bytes());
        let end = bytes.len() - 8;
        let crc = crc64(&bytes[..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
    }
    bytes
}
