//! The watermark file, through which other processes follow the writer.
//!
//! ```text
//! header, written once when the writer opens
//!    0 u64 magic "AOF2WMRK"     8 u32 version = 1     12 u32 writer_pid
//!   16 u64 stream_id           24 u64 writer_epoch_ns
//!   32..56 zero                56 u64 crc64 of bytes 0..56
//! live part, rewritten as the log moves
//!   64 u64 sequence, odd while an update is being written
//!   72 u64 durable_position    80 u64 durable_count
//!   88 u64 appended_position   96 u64 appended_count
//!  104 u64 state (0 open, 1 closed cleanly, 2 poisoned)
//!  112 u64 crc64 over bytes 16..24 and then 72..112
//!  120 u32 wake word          124 u32 zero
//! ```
//!
//! A position is `segment_index << 32 | end byte in that segment`. The sequence
//! lets a reader notice that it read across an update; the checksum lets it
//! notice an update that a dying writer left unfinished, and the stream in it a
//! file that was put in the wrong place. Sequence and wake word are atomics that
//! their owner handles; this module only says where they are.

use super::bytes::{all_zero, block, put, u32_at, u64_at};
use super::segment::check_crc;
use super::{Crc64, FormatError, StreamId, crc64};

const MAGIC: u64 = 0x414F_4632_574D_524B;
const VERSION: u32 = 1;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 8;
    pub const WRITER_PID: usize = VERSION + 4;
    pub const STREAM_ID: usize = WRITER_PID + 4;
    pub const WRITER_EPOCH_NS: usize = STREAM_ID + 8;
    pub const RESERVED: usize = WRITER_EPOCH_NS + 8;
    pub const CRC: usize = RESERVED + 24;
}

/// Length of the file: one page, so that it can be mapped.
pub const WATERMARK_FILE_LEN: usize = 4096;
/// Bytes of the file in use.
pub const WATERMARK_LEN: usize = WATERMARK_WAKE + 8;
/// Bytes of the header.
pub const WATERMARK_HEADER_LEN: usize = header::CRC + 8;
/// Offset of the update sequence, `u64`.
pub const WATERMARK_SEQUENCE: usize = WATERMARK_HEADER_LEN;
/// Offset of the checksummed body: five fields and their checksum.
pub const WATERMARK_BODY: usize = WATERMARK_SEQUENCE + 8;
/// Offset of [`WatermarkBody::durable_position`], `u64`.
pub const WATERMARK_DURABLE_POSITION: usize = WATERMARK_BODY;
/// Offset of [`WatermarkBody::durable_count`], `u64`.
pub const WATERMARK_DURABLE_COUNT: usize = WATERMARK_DURABLE_POSITION + 8;
/// Offset of [`WatermarkBody::appended_position`], `u64`.
pub const WATERMARK_APPENDED_POSITION: usize = WATERMARK_DURABLE_COUNT + 8;
/// Offset of [`WatermarkBody::appended_count`], `u64`.
pub const WATERMARK_APPENDED_COUNT: usize = WATERMARK_APPENDED_POSITION + 8;
/// Offset of [`WatermarkBody::state`], `u64`.
pub const WATERMARK_STATE: usize = WATERMARK_APPENDED_COUNT + 8;
/// Offset of the body's checksum, `u64`.
pub const WATERMARK_BODY_CRC: usize = WATERMARK_STATE + 8;
/// Offset of the word that waiting readers sleep on, `u32`.
pub const WATERMARK_WAKE: usize = WATERMARK_BODY_CRC + 8;
/// Bytes of the body, checksum included.
pub const WATERMARK_BODY_LEN: usize = WATERMARK_WAKE - WATERMARK_BODY;

const _: () = assert!(WATERMARK_HEADER_LEN == 64);
const _: () = assert!(WATERMARK_BODY == 72 && WATERMARK_BODY_LEN == 48);
const _: () = assert!(WATERMARK_WAKE == 120 && WATERMARK_LEN == 128);
// The words are atomics in a mapping: each on its natural boundary.
const _: () = assert!(WATERMARK_SEQUENCE.is_multiple_of(8) && WATERMARK_WAKE.is_multiple_of(4));

/// Who writes the log now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatermarkHeader {
    /// Process id of the writer.
    pub writer_pid: u32,
    /// The stream.
    pub stream_id: StreamId,
    /// When this writer opened the log, UTC nanoseconds; a reader that sees it
    /// change follows a new writer.
    pub writer_epoch_ns: u64,
}

impl WatermarkHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; WATERMARK_HEADER_LEN] {
        let mut bytes = [0; WATERMARK_HEADER_LEN];
        put(&mut bytes, header::MAGIC, MAGIC.to_le_bytes());
        put(&mut bytes, header::VERSION, VERSION.to_le_bytes());
        put(&mut bytes, header::WRITER_PID, self.writer_pid.to_le_bytes());
        put(&mut bytes, header::STREAM_ID, self.stream_id.as_u64().to_le_bytes());
        put(&mut bytes, header::WRITER_EPOCH_NS, self.writer_epoch_ns.to_le_bytes());
        let crc = crc64(&bytes[..header::CRC]);
        put(&mut bytes, header::CRC, crc.to_le_bytes());
        bytes
    }

    /// The header in the file's first bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; WATERMARK_HEADER_LEN] = block(bytes).ok_or(FormatError::TooShort {
            needed: WATERMARK_HEADER_LEN,
            available: bytes.len(),
        })?;
        let magic = u64_at(bytes, header::MAGIC);
        if magic != MAGIC {
            return Err(FormatError::BadMagic { found: magic });
        }
        let version = u32_at(bytes, header::VERSION);
        if version != VERSION {
            return Err(FormatError::UnsupportedVersion { found: version });
        }
        check_crc(bytes)?;
        if !all_zero(&bytes[header::RESERVED..header::CRC]) {
            return Err(FormatError::BadField { field: "reserved", reason: "not zero" });
        }
        Ok(Self {
            writer_pid: u32_at(bytes, header::WRITER_PID),
            stream_id: StreamId::from_u64(u64_at(bytes, header::STREAM_ID)),
            writer_epoch_ns: u64_at(bytes, header::WRITER_EPOCH_NS),
        })
    }
}

/// What the writer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WatermarkState {
    /// Writing, or gone without closing.
    #[default]
    Open,
    /// Closed cleanly: nothing will follow from this writer.
    Closed,
    /// A flush failed; nothing will follow until the log is reopened.
    Poisoned,
}

impl WatermarkState {
    /// The number in the file.
    pub const fn as_u64(self) -> u64 {
        match self {
            Self::Open => 0,
            Self::Closed => 1,
            Self::Poisoned => 2,
        }
    }

    /// The state with this number.
    pub const fn from_u64(state: u64) -> Option<Self> {
        match state {
            0 => Some(Self::Open),
            1 => Some(Self::Closed),
            2 => Some(Self::Poisoned),
            _ => None,
        }
    }
}

/// How far the log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WatermarkBody {
    /// End of the last durable record.
    pub durable_position: u64,
    /// Durable records in the stream.
    pub durable_count: u64,
    /// End of the last appended record.
    pub appended_position: u64,
    /// Appended records in the stream.
    pub appended_count: u64,
    /// What the writer is doing.
    pub state: WatermarkState,
}

impl WatermarkBody {
    /// Bytes 72..120 of the file of this stream.
    pub fn encode(&self, stream_id: StreamId) -> [u8; WATERMARK_BODY_LEN] {
        let mut bytes = [0; WATERMARK_BODY_LEN];
        put(&mut bytes, at(WATERMARK_DURABLE_POSITION), self.durable_position.to_le_bytes());
        put(&mut bytes, at(WATERMARK_DURABLE_COUNT), self.durable_count.to_le_bytes());
        put(&mut bytes, at(WATERMARK_APPENDED_POSITION), self.appended_position.to_le_bytes());
        put(&mut bytes, at(WATERMARK_APPENDED_COUNT), self.appended_count.to_le_bytes());
        put(&mut bytes, at(WATERMARK_STATE), self.state.as_u64().to_le_bytes());
        let crc = body_crc(stream_id, &bytes);
        put(&mut bytes, at(WATERMARK_BODY_CRC), crc.to_le_bytes());
        bytes
    }

    /// The body from bytes 72..120 of the file. The caller has checked that the
    /// sequence was even and the same before and after it copied them.
    pub fn decode(stream_id: StreamId, bytes: &[u8]) -> Result<Self, FormatError> {
        let bytes: &[u8; WATERMARK_BODY_LEN] = block(bytes)
            .ok_or(FormatError::TooShort { needed: WATERMARK_BODY_LEN, available: bytes.len() })?;
        let expected = body_crc(stream_id, bytes);
        let found = u64_at(bytes, at(WATERMARK_BODY_CRC));
        if expected != found {
            return Err(FormatError::BadChecksum { expected, found });
        }
        let state = WatermarkState::from_u64(u64_at(bytes, at(WATERMARK_STATE)))
            .ok_or(FormatError::BadField { field: "state", reason: "not a known state" })?;
        Ok(Self {
            durable_position: u64_at(bytes, at(WATERMARK_DURABLE_POSITION)),
            durable_count: u64_at(bytes, at(WATERMARK_DURABLE_COUNT)),
            appended_position: u64_at(bytes, at(WATERMARK_APPENDED_POSITION)),
            appended_count: u64_at(bytes, at(WATERMARK_APPENDED_COUNT)),
            state,
        })
    }
}

/// An offset of the file as an offset in the body.
const fn at(file_offset: usize) -> usize {
    file_offset - WATERMARK_BODY
}

fn body_crc(stream_id: StreamId, body: &[u8; WATERMARK_BODY_LEN]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(&stream_id.as_u64().to_le_bytes());
    crc.update(&body[..at(WATERMARK_BODY_CRC)]);
    crc.finish()
}
