//! Shared by targets: gives a block a valid checksum, so that what is behind the
//! checksum gets fuzzed too.

/// The first 64 bytes (zeros where there are fewer) with the last eight replaced
/// by the checksum of the others.
pub fn block(bytes: &[u8]) -> [u8; 64] {
    let mut block = [0; 64];
    let len = bytes.len().min(56);
    block[..len].copy_from_slice(&bytes[..len]);
    let crc = aof2_core::format::crc64(&block[..56]);
    block[56..].copy_from_slice(&crc.to_le_bytes());
    block
}
