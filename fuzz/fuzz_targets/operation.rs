//! An operation or a batch never reaches past its bytes, and one that validates is exactly
//! what the encoder would have written.
#![no_main]

use aof2_core::format::crc64;
use aof2_core::format::operation::{
    BATCH_HEADER_LEN, OPERATION_HEADER_LEN, Operation, OperationBatch,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // As they are, and with checksums that match, so that what is behind them is reached.
    check_operation(bytes);
    check_operation(&resealed(bytes, OPERATION_HEADER_LEN));
    check_batch(bytes);
    check_batch(&resealed(bytes, BATCH_HEADER_LEN));
});

fn check_operation(bytes: &[u8]) {
    if let Ok((operation, len)) = Operation::decode(bytes) {
        let mut again = Vec::new();
        operation.encode(&mut again);
        assert_eq!(again, bytes[..len]);
    }
}

fn check_batch(bytes: &[u8]) {
    if let Ok((batch, crc)) = OperationBatch::decode(bytes) {
        assert_eq!(batch.encode(), (bytes.to_vec(), crc));
    }
}

/// The same bytes with the checksum that ends their header.
fn resealed(bytes: &[u8], header_len: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= header_len {
        let mut rest = bytes[..header_len - 8].to_vec();
        rest.extend_from_slice(&bytes[header_len..]);
        bytes[header_len - 8..header_len].copy_from_slice(&crc64(&rest).to_le_bytes());
    }
    bytes
}
