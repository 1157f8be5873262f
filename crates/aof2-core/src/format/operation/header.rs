//! One operation: who decided what, when, and about which segments.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::body::OperationBody;
use super::codes::Phase;
use super::fields::{Field, bad, take_bytes};
use super::parts::SegmentRef;
use crate::format::bytes::{all_zero, put, u16_at, u32_at, u64_at};
use crate::format::{Crc64, FormatError, StreamId};

const MAGIC_VALUE: u32 = 0x414F_5032;
const VERSION_VALUE: u16 = 1;
const ALIGN: usize = 8;

const MAGIC: usize = 0;
const VERSION: usize = MAGIC + 4;
const TYPE: usize = VERSION + 2;
const PHASE: usize = TYPE + 2;
const ZERO: usize = PHASE + 1;
const ACTOR_LEN: usize = ZERO + 1;
const INDEX: usize = ACTOR_LEN + 2;
const GENERATION: usize = INDEX + 4;
const TERM: usize = GENERATION + 8;
const INTENT_GENERATION: usize = TERM + 8;
const INTENT_INDEX: usize = INTENT_GENERATION + 8;
const SEGMENT_COUNT: usize = INTENT_INDEX + 4;
const STREAM_ID: usize = SEGMENT_COUNT + 4;
const NODE_ID: usize = STREAM_ID + 8;
const TIMESTAMP_MS: usize = NODE_ID + 8;
const FIELDS_LEN: usize = TIMESTAMP_MS + 8;
const ZERO_TOO: usize = FIELDS_LEN + 4;
const CRC64: usize = ZERO_TOO + 4;

/// Bytes of an operation before its segments, actor and fields.
pub const OPERATION_HEADER_LEN: usize = CRC64 + 8;
const _: () = assert!(OPERATION_HEADER_LEN == 88);

const SEGMENT_LEN: usize = 32;
/// The longest text that says who decided.
pub const ACTOR_LEN_MAX: usize = 255;

/// An operation: the generation of its batch, which is the batch's offset in the operation
/// log, and its place in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId {
    /// Generation of the batch.
    pub generation: u64,
    /// Place in the batch.
    pub index: u32,
}

impl OperationId {
    const NONE: Self = Self { generation: u64::MAX, index: u32::MAX };
}

/// `generation.index`, both decimal.
impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.index)
    }
}

/// Reads `generation.index`.
impl FromStr for OperationId {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let id = text.split_once('.').and_then(|(generation, index)| {
            Some(Self { generation: generation.parse().ok()?, index: index.parse().ok()? })
        });
        id.ok_or(bad("operation_id", "expected generation.index, in decimal"))
    }
}

/// An operation, as it stands in the operation log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Which one it is.
    pub id: OperationId,
    /// Term of the leader that decided it; 0 without a cluster.
    pub term: u64,
    /// How far it has got.
    pub phase: Phase,
    /// The intent of which this is the outcome.
    pub intent: Option<OperationId>,
    /// The log that it is about, if it is about one.
    pub stream_id: Option<StreamId>,
    /// The node that wrote it.
    pub node_id: u64,
    /// When it was decided, UTC milliseconds. What it does depends on this time alone.
    pub timestamp_ms: u64,
    /// Who decided it.
    pub actor: String,
    /// Segments that it is about.
    pub segments: Vec<SegmentRef>,
    /// What is decided.
    pub body: OperationBody,
}

impl Operation {
    /// Adds the bytes of the operation. An actor that is too long is cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + OPERATION_HEADER_LEN, 0);
        self.segments.iter().for_each(|segment| segment.put(out));
        let actor = cut(&self.actor);
        out.extend_from_slice(actor.as_bytes());
        let fields_start = out.len();
        self.body.put(out);
        let fields_len = out.len() - fields_start;
        out.resize(start + (out.len() - start).next_multiple_of(ALIGN), 0);

        let intent = self.intent.unwrap_or(OperationId::NONE);
        let stream_id = self.stream_id.map_or(0, StreamId::as_u64);
        let bytes = &mut out[start..];
        put(bytes, MAGIC, MAGIC_VALUE.to_le_bytes());
        put(bytes, VERSION, VERSION_VALUE.to_le_bytes());
        put(bytes, TYPE, self.body.number().to_le_bytes());
        put(bytes, PHASE, [self.phase.number()]);
        put(bytes, ACTOR_LEN, (actor.len() as u16).to_le_bytes());
        put(bytes, INDEX, self.id.index.to_le_bytes());
        put(bytes, GENERATION, self.id.generation.to_le_bytes());
        put(bytes, TERM, self.term.to_le_bytes());
        put(bytes, INTENT_GENERATION, intent.generation.to_le_bytes());
        put(bytes, INTENT_INDEX, intent.index.to_le_bytes());
        put(bytes, SEGMENT_COUNT, (self.segments.len() as u32).to_le_bytes());
        put(bytes, STREAM_ID, stream_id.to_le_bytes());
        put(bytes, NODE_ID, self.node_id.to_le_bytes());
        put(bytes, TIMESTAMP_MS, self.timestamp_ms.to_le_bytes());
        put(bytes, FIELDS_LEN, (fields_len as u32).to_le_bytes());
        let crc = checksum(bytes);
        put(bytes, CRC64, crc.to_le_bytes());
    }

    /// The operation at the front of these bytes, and how many it takes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), FormatError> {
        let available = bytes.len();
        if available < OPERATION_HEADER_LEN {
            return Err(FormatError::TooShort { needed: OPERATION_HEADER_LEN, available });
        }
        let magic = u32_at(bytes, MAGIC);
        if magic != MAGIC_VALUE {
            return Err(FormatError::BadMagic { found: u64::from(magic) });
        }
        let version = u16_at(bytes, VERSION);
        if version != VERSION_VALUE {
            return Err(FormatError::UnsupportedVersion { found: u32::from(version) });
        }
        let len = encoded_len(bytes);
        let Some(bytes) = usize::try_from(len).ok().and_then(|len| bytes.get(..len)) else {
            let needed = usize::try_from(len).unwrap_or(usize::MAX);
            return Err(FormatError::TooShort { needed, available });
        };
        let (expected, found) = (checksum(bytes), u64_at(bytes, CRC64));
        if expected != found {
            return Err(FormatError::BadChecksum { expected, found });
        }
        Ok((Self::from_valid(bytes)?, bytes.len()))
    }

    /// The operation in bytes whose length and checksum are right.
    fn from_valid(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes[ZERO] != 0 || u32_at(bytes, ZERO_TOO) != 0 {
            return Err(bad("zero", "reserved bytes are not zero"));
        }
        let input = &mut &bytes[OPERATION_HEADER_LEN..];
        let count = u32_at(bytes, SEGMENT_COUNT);
        let segments = (0..count).map(|_| SegmentRef::take(input)).collect::<Result<_, _>>()?;
        let actor = take_bytes(input, usize::from(u16_at(bytes, ACTOR_LEN)))?.to_vec();
        let fields = take_bytes(input, u32_at(bytes, FIELDS_LEN) as usize)?;
        if actor.len() > ACTOR_LEN_MAX || !all_zero(input) {
            return Err(bad("actor", "too long, or followed by something else than zeros"));
        }
        let intent = OperationId {
            generation: u64_at(bytes, INTENT_GENERATION),
            index: u32_at(bytes, INTENT_INDEX),
        };
        Ok(Self {
            id: OperationId { generation: u64_at(bytes, GENERATION), index: u32_at(bytes, INDEX) },
            term: u64_at(bytes, TERM),
            phase: Phase::from_number(bytes[PHASE]).ok_or(bad("phase", "stands for nothing"))?,
            intent: (intent != OperationId::NONE).then_some(intent),
            stream_id: StreamId::from_random(u64_at(bytes, STREAM_ID)),
            node_id: u64_at(bytes, NODE_ID),
            timestamp_ms: u64_at(bytes, TIMESTAMP_MS),
            actor: String::from_utf8(actor).map_err(|_| bad("actor", "not utf-8"))?,
            segments,
            body: OperationBody::take(u16_at(bytes, TYPE), fields)?,
        })
    }
}

/// Length of an operation by its header. No sum of these fields overflows.
fn encoded_len(header: &[u8]) -> u64 {
    let segments = u64::from(u32_at(header, SEGMENT_COUNT)) * SEGMENT_LEN as u64;
    let texts = u64::from(u16_at(header, ACTOR_LEN)) + u64::from(u32_at(header, FIELDS_LEN));
    (OPERATION_HEADER_LEN as u64 + segments + texts).next_multiple_of(ALIGN as u64)
}

/// Of everything but the checksum's own bytes.
fn checksum(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(&bytes[..CRC64]);
    crc.update(&bytes[OPERATION_HEADER_LEN..]);
    crc.finish()
}

/// The text, or as many of its characters as there is space for.
fn cut(actor: &str) -> &str {
    &actor[..actor.floor_char_boundary(ACTOR_LEN_MAX)]
}
