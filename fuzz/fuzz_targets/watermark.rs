//! A watermark that decodes encodes to the same bytes.
#![no_main]

use aof2_core::format::{
    Crc64, StreamId, WATERMARK_BODY, WATERMARK_BODY_LEN, WatermarkBody, WatermarkHeader,
};
use libfuzzer_sys::fuzz_target;

#[path = "reseal.rs"]
mod reseal;

const STREAM: StreamId = StreamId::from_u64(1);

fuzz_target!(|bytes: &[u8]| {
    check_header(bytes);
    check_header(&reseal::block(bytes));
    let body = bytes.get(WATERMARK_BODY..).unwrap_or(bytes);
    check_body(body);
    check_body(&resealed_body(body));
});

fn check_header(bytes: &[u8]) {
    if let Ok(header) = WatermarkHeader::decode(bytes) {
        assert_eq!(header.encode(), bytes[..64]);
    }
}

fn check_body(bytes: &[u8]) {
    if let Ok(body) = WatermarkBody::decode(STREAM, bytes) {
        assert_eq!(body.encode(STREAM), bytes[..WATERMARK_BODY_LEN]);
    }
}

fn resealed_body(bytes: &[u8]) -> [u8; WATERMARK_BODY_LEN] {
    const CRC: usize = WATERMARK_BODY_LEN - 8;
    let mut body = [0; WATERMARK_BODY_LEN];
    let len = bytes.len().min(CRC);
    body[..len].copy_from_slice(&bytes[..len]);
    let mut crc = Crc64::new();
    crc.update(&STREAM.as_u64().to_le_bytes());
    crc.update(&body[..CRC]);
    body[CRC..].copy_from_slice(&crc.finish().to_le_bytes());
    body
}
