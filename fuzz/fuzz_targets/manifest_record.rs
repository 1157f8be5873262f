//! A record never reaches past its bytes, one that validates is exactly what the encoder
//! would have written, and any record can be folded into any state.
#![no_main]

use aof2_core::format::crc64;
use aof2_core::format::manifest::{
    ManifestRecord, ManifestRecordHeader, PAYLOAD_LEN_MAX, RECORD_HEADER_LEN, SnapshotImage,
};
use aof2_core::manifest::{ManifestIndex, ManifestPosition};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut index = ManifestIndex::new();
    // As they are, and with checksums that match, so that what is behind them is reached.
    for bytes in [bytes.to_vec(), resealed(bytes)] {
        let mut rest = &bytes[..];
        while let Ok((record, len)) = ManifestRecord::decode(rest) {
            check(&record, &rest[..len]);
            index.fold(index.next_record(), &record);
            rest = &rest[len..];
        }
    }
    let image = index.to_image(1, ManifestPosition::start_of(0));
    let read = SnapshotImage::decode(&image.encode()).unwrap();
    assert!(ManifestIndex::from_image(read) == index);
});

fn check(record: &ManifestRecord<'_>, bytes: &[u8]) {
    let mut again = Vec::new();
    record.encode(&mut again).unwrap();
    assert_eq!(again, bytes);
    assert_eq!(record.encoded_len(), bytes.len());
}

/// The same records with lengths that fit and checksums that match.
fn resealed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Ok(header) = ManifestRecordHeader::decode(rest) {
        rest = &rest[RECORD_HEADER_LEN..];
        let wanted_len = (header.payload_len as usize).clamp(1, PAYLOAD_LEN_MAX);
        let Some(payload) = rest.get(..wanted_len.min(rest.len())).filter(|p| !p.is_empty()) else {
            break;
        };
        let payload_len = payload.len() as u32;
        let header = ManifestRecordHeader { payload_len, payload_crc64: crc64(payload), ..header };
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(payload);
        out.resize(out.len().next_multiple_of(8), 0);
        rest = &rest[payload.len().next_multiple_of(8).min(rest.len())..];
    }
    out
}
