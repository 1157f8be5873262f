//! The smallest record that could be verified later:
//!
//!  0 u32 checksum   4 u32 payload_len   8 u64 ordinal   16 u64 timestamp
//!  24 u64 flags     32 payload          padded to 8 bytes
//!
//! The checksum stands first, so that what it covers is one run of bytes and
//! one call computes it: crc-fast pays a fixed price per call.

use crc_fast::CrcAlgorithm;

use crate::payload::Payloads;

pub const HEADER_LEN: usize = 32;
const CHECKSUM_LEN: usize = 4;

#[inline]
pub fn record_len(payload_len: usize) -> usize {
    (HEADER_LEN + payload_len).next_multiple_of(8)
}

/// CRC-64/NVME folded to 32 bits.
#[inline]
pub fn checksum(bytes: &[u8]) -> u32 {
    let crc = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes);
    (crc ^ (crc >> 32)) as u32
}

/// Copies the record to the front of `target` and checksums it there.
#[inline]
pub fn write_record(target: &mut [u8], ordinal: u64, payload: &[u8]) -> usize {
    let end = HEADER_LEN + payload.len();
    let record = &mut target[..end];
    record[4..8].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    record[8..16].copy_from_slice(&ordinal.to_le_bytes());
    record[16..24].copy_from_slice(&(ordinal ^ 0x5555).to_le_bytes());
    record[24..32].copy_from_slice(&0u64.to_le_bytes());
    record[HEADER_LEN..].copy_from_slice(payload);
    let crc = checksum(&record[CHECKSUM_LEN..]);
    record[..CHECKSUM_LEN].copy_from_slice(&crc.to_le_bytes());
    record_len(payload.len())
}

/// Reads the length at `offset` and verifies the record there. Returns its
/// payload length, or nothing if the bytes are damaged.
#[inline]
pub fn verify_record(bytes: &[u8], offset: usize) -> Option<usize> {
    let header = bytes.get(offset..offset + HEADER_LEN)?;
    let expected = u32::from_le_bytes(header[..4].try_into().ok()?);
    let payload_len = u32::from_le_bytes(header[4..8].try_into().ok()?) as usize;
    let end = offset + HEADER_LEN + payload_len;
    let covered = bytes.get(offset + CHECKSUM_LEN..end)?;
    (checksum(covered) == expected).then_some(payload_len)
}

/// Writes records `first..first + count` one after the other and returns how
/// many bytes they took.
#[inline]
pub fn write_records(target: &mut [u8], payloads: &Payloads, first: u64, count: u64) -> usize {
    let mut at = 0;
    for ordinal in first..first + count {
        at += write_record(&mut target[at..], ordinal, payloads.get(ordinal));
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_format() {
        let crc = crc_fast::checksum(CrcAlgorithm::Crc64Nvme, b"123456789");
        assert_eq!(crc, 0xAE8B_1486_0A79_9888);
    }

    #[test]
    fn a_written_record_verifies_and_a_flipped_bit_does_not() {
        let mut bytes = vec![0; record_len(100)];
        assert_eq!(write_record(&mut bytes, 7, &[3; 100]), 136);
        assert_eq!(verify_record(&bytes, 0), Some(100));
        bytes[50] ^= 1;
        assert_eq!(verify_record(&bytes, 0), None);
    }
}
