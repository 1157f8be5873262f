//! A batch: operations that were decided together, one record of the operation log.

use super::fields::bad;
use super::header::Operation;
use crate::format::bytes::{put, u16_at, u32_at, u64_at};
use crate::format::{Crc64, FormatError, PAYLOAD_LEN_MAX};

const MAGIC_VALUE: u64 = 0x414F_4632_4F50_4552;
const VERSION_VALUE: u16 = 1;

const MAGIC: usize = 0;
const VERSION: usize = MAGIC + 8;
const ZERO: usize = VERSION + 2;
const OPERATION_COUNT: usize = ZERO + 2;
const GENERATION: usize = OPERATION_COUNT + 4;
const PREVIOUS_CRC64: usize = GENERATION + 8;
const BODY_LEN: usize = PREVIOUS_CRC64 + 8;
const ZERO_TOO: usize = BODY_LEN + 4;
const CRC64: usize = ZERO_TOO + 4;

/// Bytes of a batch before its first operation.
pub const BATCH_HEADER_LEN: usize = CRC64 + 8;
const _: () = assert!(BATCH_HEADER_LEN == 48);

/// Bytes that operations may take in a batch of which a log takes payloads of this length.
pub const fn operation_space(payload_len_max: usize) -> usize {
    let len = if payload_len_max < PAYLOAD_LEN_MAX { payload_len_max } else { PAYLOAD_LEN_MAX };
    len.saturating_sub(BATCH_HEADER_LEN)
}

/// Operations that hold together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationBatch {
    /// Its offset in the operation log.
    pub generation: u64,
    /// Checksum of the batch before; 0 for the first.
    pub previous_crc64: u64,
    /// The operations, in order; at least one.
    pub operations: Vec<Operation>,
}

impl OperationBatch {
    /// The bytes of the batch, and its checksum. The operations have the ids that they get
    /// by their place.
    pub fn encode(&self) -> (Vec<u8>, u64) {
        let mut bytes = vec![0; BATCH_HEADER_LEN];
        self.operations.iter().for_each(|operation| operation.encode(&mut bytes));
        let body_len = (bytes.len() - BATCH_HEADER_LEN) as u32;
        put(&mut bytes, MAGIC, MAGIC_VALUE.to_le_bytes());
        put(&mut bytes, VERSION, VERSION_VALUE.to_le_bytes());
        put(&mut bytes, OPERATION_COUNT, (self.operations.len() as u32).to_le_bytes());
        put(&mut bytes, GENERATION, self.generation.to_le_bytes());
        put(&mut bytes, PREVIOUS_CRC64, self.previous_crc64.to_le_bytes());
        put(&mut bytes, BODY_LEN, body_len.to_le_bytes());
        let crc = checksum(&bytes);
        put(&mut bytes, CRC64, crc.to_le_bytes());
        (bytes, crc)
    }

    /// The batch that these bytes are, and its checksum.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), FormatError> {
        let available = bytes.len();
        if available < BATCH_HEADER_LEN {
            return Err(FormatError::TooShort { needed: BATCH_HEADER_LEN, available });
        }
        let magic = u64_at(bytes, MAGIC);
        if magic != MAGIC_VALUE {
            return Err(FormatError::BadMagic { found: magic });
        }
        let version = u16_at(bytes, VERSION);
        if version != VERSION_VALUE {
            return Err(FormatError::UnsupportedVersion { found: u32::from(version) });
        }
        let (expected, found) = (checksum(bytes), u64_at(bytes, CRC64));
        if expected != found {
            return Err(FormatError::BadChecksum { expected, found });
        }
        let body = &bytes[BATCH_HEADER_LEN..];
        if u16_at(bytes, ZERO) != 0 || u32_at(bytes, ZERO_TOO) != 0 {
            return Err(bad("zero", "reserved bytes are not zero"));
        }
        if u32_at(bytes, BODY_LEN) as usize != body.len() {
            return Err(bad("body_len", "not the length of the operations"));
        }
        let batch = Self {
            generation: u64_at(bytes, GENERATION),
            previous_crc64: u64_at(bytes, PREVIOUS_CRC64),
            operations: operations(body)?,
        };
        batch.check_places(u32_at(bytes, OPERATION_COUNT))?;
        Ok((batch, found))
    }

    /// Whether every operation is in its place.
    fn check_places(&self, count: u32) -> Result<(), FormatError> {
        if count == 0 || count as usize != self.operations.len() {
            return Err(bad("operation_count", "not the number of operations"));
        }
        let is_in_place = |(index, operation): (usize, &Operation)| {
            operation.id.generation == self.generation && operation.id.index as usize == index
        };
        match self.operations.iter().enumerate().all(is_in_place) {
            true => Ok(()),
            false => Err(bad("operation_id", "an operation of another place")),
        }
    }
}

fn operations(mut body: &[u8]) -> Result<Vec<Operation>, FormatError> {
    let mut operations = Vec::new();
    while !body.is_empty() {
        let (operation, len) = Operation::decode(body)?;
        operations.push(operation);
        body = &body[len..];
    }
    Ok(operations)
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(&bytes[..CRC64]);
    crc.update(&bytes[BATCH_HEADER_LEN..]);
    crc.finish()
}
