//! Checkpoint of a catalog: all rows of all tables after one batch of the operation log.
//! Spec: docs/format.md#catalog-checkpoints
//!
//! ```text
//! header, 64 bytes                        block
//!  0 u64 magic "AOF2CKPT"                  0 u32 stored_len
//!  8 u16 version = 1   10 u16 zero         4 u32 raw_len
//! 12 u32 tables_version                    8 u64 crc64 of the checksum before, 0..8, stored
//! 16 u64 stream_id of the operation log   16 stored: zstd of rows
//! 24 u64 generation of the last batch     end
//! 32 u64 crc64 of the last batch           0 u64 zero
//! 40 u64[2] zero                           8 u64 crc64 of the checksum before, row_count
//! 56 u64 crc64 of 0..56                   16 u64 row_count
//! row: u16 table, u16 key_len, u32 value_len, key, value
//! ```
//!
//! Rows are sorted by table and key. Each checksum goes on from the one before, the first
//! from the header's, so that no block can be missing, twice, or of another file.

use super::bytes::{block, put, u16_at, u32_at, u64_at};
use super::{Crc64, FormatError, StreamId, crc64};

const MAGIC_VALUE: u64 = 0x414F_4632_434B_5054;
const VERSION_VALUE: u16 = 1;

const MAGIC: usize = 0;
const VERSION: usize = MAGIC + 8;
const TABLES_VERSION: usize = VERSION + 4;
const STREAM_ID: usize = TABLES_VERSION + 4;
const GENERATION: usize = STREAM_ID + 8;
const BATCH_CRC64: usize = GENERATION + 8;
const HEADER_CRC64: usize = BATCH_CRC64 + 24;

/// Bytes of the header.
pub const CHECKPOINT_HEADER_LEN: usize = HEADER_CRC64 + 8;
const _: () = assert!(CHECKPOINT_HEADER_LEN == 64);
/// Bytes of a block before what it stores.
pub const CHECKPOINT_BLOCK_LEN: usize = 16;
/// Bytes of the end.
pub const CHECKPOINT_END_LEN: usize = 24;
/// The longest block, stored or raw: no row is longer than a record of the log.
pub const CHECKPOINT_RAW_LEN_MAX: usize = 1 << 30;
const ROW_HEADER_LEN: usize = 8;

/// Which state of which catalog a checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// Version of the tables.
    pub tables_version: u32,
    /// The operation log.
    pub stream_id: StreamId,
    /// The last batch that it includes.
    pub generation: u64,
    /// Checksum of that batch.
    pub batch_crc64: u64,
}

impl CheckpointHeader {
    /// The bytes of the header, and the checksum that the first block goes on from.
    pub fn encode(&self) -> ([u8; CHECKPOINT_HEADER_LEN], u64) {
        let mut bytes = [0; CHECKPOINT_HEADER_LEN];
        put(&mut bytes, MAGIC, MAGIC_VALUE.to_le_bytes());
        put(&mut bytes, VERSION, VERSION_VALUE.to_le_bytes());
        put(&mut bytes, TABLES_VERSION, self.tables_version.to_le_bytes());
        put(&mut bytes, STREAM_ID, self.stream_id.as_u64().to_le_bytes());
        put(&mut bytes, GENERATION, self.generation.to_le_bytes());
        put(&mut bytes, BATCH_CRC64, self.batch_crc64.to_le_bytes());
        let crc = crc64(&bytes[..HEADER_CRC64]);
        put(&mut bytes, HEADER_CRC64, crc.to_le_bytes());
        (bytes, crc)
    }

    /// The header in these bytes, and its checksum.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), FormatError> {
        let available = bytes.len();
        let needed = CHECKPOINT_HEADER_LEN;
        let bytes = block::<CHECKPOINT_HEADER_LEN>(bytes)
            .ok_or(FormatError::TooShort { needed, available })?;
        let magic = u64_at(bytes, MAGIC);
        if magic != MAGIC_VALUE {
            return Err(FormatError::BadMagic { found: magic });
        }
        let version = u16_at(bytes, VERSION);
        if version != VERSION_VALUE {
            return Err(FormatError::UnsupportedVersion { found: u32::from(version) });
        }
        let (expected, found) = (crc64(&bytes[..HEADER_CRC64]), u64_at(bytes, HEADER_CRC64));
        if expected != found {
            return Err(FormatError::BadChecksum { expected, found });
        }
        let header = Self {
            tables_version: u32_at(bytes, TABLES_VERSION),
            stream_id: StreamId::from_u64(u64_at(bytes, STREAM_ID)),
            generation: u64_at(bytes, GENERATION),
            batch_crc64: u64_at(bytes, BATCH_CRC64),
        };
        match header.encode().0 == *bytes {
            true => Ok((header, found)),
            false => Err(FormatError::BadField { field: "zero", reason: "not zero" }),
        }
    }
}

/// What stands before the bytes of a block, or at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointBlock {
    /// Bytes in the file; 0 at the end.
    pub stored_len: u32,
    /// Bytes that they are of rows.
    pub raw_len: u32,
    /// Checksum.
    pub crc64: u64,
}

impl CheckpointBlock {
    /// The block that stores these bytes, behind one with this checksum.
    pub fn of(stored: &[u8], raw_len: u32, previous_crc64: u64) -> Self {
        let mut block = Self { stored_len: stored.len() as u32, raw_len, crc64: 0 };
        block.crc64 = block.checksum(stored, previous_crc64);
        block
    }

    /// The end of a checkpoint, with its number of rows.
    pub fn end(row_count: u64, previous_crc64: u64) -> [u8; CHECKPOINT_END_LEN] {
        let mut bytes = [0; CHECKPOINT_END_LEN];
        put(&mut bytes, CHECKPOINT_BLOCK_LEN, row_count.to_le_bytes());
        let crc = Self { stored_len: 0, raw_len: 0, crc64: 0 }
            .checksum(&row_count.to_le_bytes(), previous_crc64);
        put(&mut bytes, 8, crc.to_le_bytes());
        bytes
    }

    /// The bytes before what it stores.
    pub fn encode(&self) -> [u8; CHECKPOINT_BLOCK_LEN] {
        let mut bytes = [0; CHECKPOINT_BLOCK_LEN];
        put(&mut bytes, 0, self.stored_len.to_le_bytes());
        put(&mut bytes, 4, self.raw_len.to_le_bytes());
        put(&mut bytes, 8, self.crc64.to_le_bytes());
        bytes
    }

    /// The block or end in these bytes. Its lengths are bounded, and nothing else is known.
    pub fn decode(bytes: &[u8; CHECKPOINT_BLOCK_LEN]) -> Result<Self, FormatError> {
        let block = Self {
            stored_len: u32_at(bytes, 0),
            raw_len: u32_at(bytes, 4),
            crc64: u64_at(bytes, 8),
        };
        let is_long = block.stored_len.max(block.raw_len) as usize > CHECKPOINT_RAW_LEN_MAX;
        if is_long || (block.stored_len == 0) != (block.raw_len == 0) {
            return Err(FormatError::BadField { field: "stored_len", reason: "no block's length" });
        }
        Ok(block)
    }

    /// Whether no rows follow.
    pub fn is_end(&self) -> bool {
        self.stored_len == 0
    }

    /// Whether it is the block of these bytes behind one with this checksum; for the end,
    /// of the number of rows.
    pub fn verify(&self, stored: &[u8], previous_crc64: u64) -> Result<(), FormatError> {
        let expected = self.checksum(stored, previous_crc64);
        match expected == self.crc64 {
            true => Ok(()),
            false => Err(FormatError::BadChecksum { expected, found: self.crc64 }),
        }
    }

    fn checksum(&self, stored: &[u8], previous_crc64: u64) -> u64 {
        let mut crc = Crc64::resume(previous_crc64);
        crc.update(&self.stored_len.to_le_bytes());
        crc.update(&self.raw_len.to_le_bytes());
        crc.update(stored);
        crc.finish()
    }
}

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointRow<'a> {
    /// Number of the table.
    pub table: u16,
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> CheckpointRow<'a> {
    /// Adds the bytes of the row. Keys are shorter than 64 KiB.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.table.to_le_bytes());
        out.extend_from_slice(&(self.key.len() as u16).to_le_bytes());
        out.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }

    /// The row at the front of these bytes, and how many it takes.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        let key_len = usize::from(u16_at(bytes, 2));
        let needed = (ROW_HEADER_LEN + key_len).saturating_add(u32_at(bytes, 4) as usize);
        let Some(row) = bytes.get(..needed) else {
            return Err(FormatError::TooShort { needed, available: bytes.len() });
        };
        let (key, value) = row[ROW_HEADER_LEN..].split_at(key_len);
        Ok((Self { table: u16_at(bytes, 0), key, value }, needed))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HEADER: CheckpointHeader = CheckpointHeader {
        tables_version: 1,
        stream_id: StreamId::from_u64(0x75C7),
        generation: 258,
        batch_crc64: 0xC1C2_C3C4_C5C6_C7C8,
    };

    /// Golden bytes, written down from the table with a checksum of another program.
    #[test]
    fn header_block_row_and_end_have_these_bytes() {
        let (header, crc) = HEADER.encode();
        assert_eq!(hex(&header), GOLDEN_HEADER);
        let mut row = Vec::new();
        CheckpointRow { table: 3, key: b"key", value: b"value" }.encode(&mut row);
        assert_eq!(hex(&row), "03000300050000006b657976616c7565");
        let block = CheckpointBlock::of(b"stored", 16, crc);
        assert_eq!(hex(&block.encode()), GOLDEN_BLOCK);
        assert_eq!(hex(&CheckpointBlock::end(1, block.crc64)), GOLDEN_END);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_refused() {
        let (bytes, crc) = HEADER.encode();
        assert_eq!(CheckpointHeader::decode(&bytes), Ok((HEADER, crc)));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(CheckpointHeader::decode(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_block_behind_another_one_is_refused() {
        let block = CheckpointBlock::of(b"stored", 16, 7);
        assert!(block.verify(b"stored", 7).is_ok());
        assert!(block.verify(b"stored", 8).is_err() && block.verify(b"stores", 7).is_err());
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const GOLDEN_HEADER: &str = "54504b4332464f410100000001000000c7750000000000000201000000000000c8c7c6c5c4c3c2c1000000000000000000000000000000006f6849768de178d6";
    const GOLDEN_BLOCK: &str = "06000000100000007483f5b52779925e";
    const GOLDEN_END: &str = "00000000000000001533cdcb959c59df0100000000000000";
}
