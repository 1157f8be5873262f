//! The payloads of the sixteen record types, packed. Spec: docs/format.md#payloads
//!
//! ```text
//! type                  payload
//!  0 SegmentOpened      u64 base_offset, u32 epoch
//!  1 SealSegment        u64 durable_bytes, u64 segment_crc64, u64 ext_id,
//!                       u64 coordinator_watermark, u8 flush_failure
//!  2 CompressionStarted u32 job_id
//!  3 CompressionDone    u64 compressed_bytes, u32 dictionary_id
//!  4 CompressionFailed  u32 reason_code
//!  5 UploadStarted      u16 key_len, key
//!  6 UploadDone         u16 key_len, u16 etag_len, key, etag
//!  7 UploadFailed       u16 key_len, u32 reason_code, key
//!  8 Tier2DeleteQueued  u16 key_len, key
//!  9 Tier2Deleted       u16 key_len, key
//! 10 HydrationStarted   u64 source_tier
//! 11 HydrationDone      u64 resident_bytes
//! 12 HydrationFailed    u32 reason_code
//! 13 LocalEvicted       u64 reclaimed_bytes
//! 14 SnapshotMarker     u64 chunk_index, u64 chunk_offset, u64 snapshot_id
//! 15 CustomEvent        u32 schema_id, u16 blob_len, blob
//! ```
//!
//! A payload is exactly as long as its fields and texts; anything else is refused,
//! so that what decodes encodes to the same bytes.

use crate::format::FormatError;
use crate::format::bytes::{u16_at, u32_at, u64_at};

use super::ReasonCode;
use super::record::{PAYLOAD_LEN_MAX, TEXT_LEN_MAX};

mod record_type {
    pub const SEGMENT_OPENED: u16 = 0;
    pub const SEAL_SEGMENT: u16 = 1;
    pub const COMPRESSION_STARTED: u16 = 2;
    pub const COMPRESSION_DONE: u16 = 3;
    pub const COMPRESSION_FAILED: u16 = 4;
    pub const UPLOAD_STARTED: u16 = 5;
    pub const UPLOAD_DONE: u16 = 6;
    pub const UPLOAD_FAILED: u16 = 7;
    pub const TIER2_DELETE_QUEUED: u16 = 8;
    pub const TIER2_DELETED: u16 = 9;
    pub const HYDRATION_STARTED: u16 = 10;
    pub const HYDRATION_DONE: u16 = 11;
    pub const HYDRATION_FAILED: u16 = 12;
    pub const LOCAL_EVICTED: u16 = 13;
    pub const SNAPSHOT_MARKER: u16 = 14;
    pub const CUSTOM_EVENT: u16 = 15;
    /// Types from here on are of a later version.
    pub const UNKNOWN: u16 = CUSTOM_EVENT + 1;
}

const _: () = assert!(record_type::UNKNOWN == 16);

/// Lengths of the fixed parts: the whole payload, or what stands in front of texts.
mod fixed_len {
    pub const SEGMENT_OPENED: usize = 8 + 4;
    pub const SEAL_SEGMENT: usize = 4 * 8 + 1;
    pub const COMPRESSION_DONE: usize = 8 + 4;
    pub const UPLOAD_DONE: usize = 2 + 2;
    pub const UPLOAD_FAILED: usize = 2 + 4;
    pub const SNAPSHOT_MARKER: usize = 3 * 8;
    pub const CUSTOM_EVENT: usize = 4 + 2;
    /// `UploadStarted`, `Tier2DeleteQueued`, `Tier2Deleted`.
    pub const KEY: usize = 2;
    /// Job and reason codes.
    pub const U32: usize = 4;
    /// Tiers and byte counts.
    pub const U64: usize = 8;
}

const _: () = assert!(fixed_len::SEGMENT_OPENED == 12 && fixed_len::COMPRESSION_DONE == 12);
const _: () = assert!(fixed_len::SEAL_SEGMENT == 33 && fixed_len::SNAPSHOT_MARKER == 24);
const _: () = assert!(fixed_len::UPLOAD_DONE == 4 && fixed_len::UPLOAD_FAILED == 6);
const _: () = assert!(fixed_len::CUSTOM_EVENT == 6 && fixed_len::KEY == 2);

/// What happened. Texts and blobs are borrowed from the bytes they were read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestEvent<'a> {
    /// The hot tier started a segment.
    SegmentOpened {
        /// Stream bytes before the segment.
        base_offset: u64,
        /// Tells incarnations of a segment apart.
        epoch: u32,
    },
    /// The segment takes no more records and is durable.
    SealSegment {
        /// File bytes up to the end of the last record.
        durable_bytes: u64,
        /// Checksum over them.
        segment_crc64: u64,
        /// The user's identifier of the segment.
        ext_id: u64,
        /// Records the coordinator had seen durable when it was sealed.
        coordinator_watermark: u64,
        /// Whether a flush of the segment had failed.
        flush_failure: bool,
    },
    /// Compression into the warm tier was admitted.
    CompressionStarted {
        /// The job.
        job_id: u32,
    },
    /// The warm artifact is durable.
    CompressionDone {
        /// Its length.
        compressed_bytes: u64,
        /// The dictionary it needs, 0 for none.
        dictionary_id: u32,
    },
    /// Compression failed.
    CompressionFailed {
        /// Why.
        reason: ReasonCode,
    },
    /// An upload to the cold tier began.
    UploadStarted {
        /// Key of the object.
        key: &'a str,
    },
    /// The object is in the cold tier.
    UploadDone {
        /// Key of the object.
        key: &'a str,
        /// The store's tag of its contents.
        etag: &'a str,
    },
    /// The upload failed; it stays pending.
    UploadFailed {
        /// Key of the object.
        key: &'a str,
        /// Why.
        reason: ReasonCode,
    },
    /// The object is to be deleted.
    Tier2DeleteQueued {
        /// Key of the object.
        key: &'a str,
    },
    /// The object is gone.
    Tier2Deleted {
        /// Key of the object.
        key: &'a str,
    },
    /// The hot copy is being restored.
    HydrationStarted {
        /// Where from: 1 warm, 2 cold.
        source_tier: u64,
    },
    /// The hot copy is back.
    HydrationDone {
        /// Its length.
        resident_bytes: u64,
    },
    /// The hot copy could not be restored.
    HydrationFailed {
        /// Why.
        reason: ReasonCode,
    },
    /// A local copy was removed.
    LocalEvicted {
        /// Disk space that became free.
        reclaimed_bytes: u64,
    },
    /// A snapshot holds everything before this position.
    SnapshotMarker {
        /// Chunk of the position.
        chunk_index: u64,
        /// Byte in the chunk.
        chunk_offset: u64,
        /// The snapshot.
        snapshot_id: u64,
    },
    /// An event that the core carries and does not interpret.
    CustomEvent {
        /// Says whoever wrote it what the blob is.
        schema_id: u32,
        /// Its contents.
        blob: &'a [u8],
    },
    /// A type of a later version: skipped, counted, kept for diagnosis.
    Unknown {
        /// The type, 16 or more.
        record_type: u16,
        /// Its payload, which has a valid checksum.
        payload: &'a [u8],
    },
}

impl<'a> ManifestEvent<'a> {
    /// The number in the record's header.
    pub const fn record_type(&self) -> u16 {
        match self {
            Self::SegmentOpened { .. } => record_type::SEGMENT_OPENED,
            Self::SealSegment { .. } => record_type::SEAL_SEGMENT,
            Self::CompressionStarted { .. } => record_type::COMPRESSION_STARTED,
            Self::CompressionDone { .. } => record_type::COMPRESSION_DONE,
            Self::CompressionFailed { .. } => record_type::COMPRESSION_FAILED,
            Self::UploadStarted { .. } => record_type::UPLOAD_STARTED,
            Self::UploadDone { .. } => record_type::UPLOAD_DONE,
            Self::UploadFailed { .. } => record_type::UPLOAD_FAILED,
            Self::Tier2DeleteQueued { .. } => record_type::TIER2_DELETE_QUEUED,
            Self::Tier2Deleted { .. } => record_type::TIER2_DELETED,
            Self::HydrationStarted { .. } => record_type::HYDRATION_STARTED,
            Self::HydrationDone { .. } => record_type::HYDRATION_DONE,
            Self::HydrationFailed { .. } => record_type::HYDRATION_FAILED,
            Self::LocalEvicted { .. } => record_type::LOCAL_EVICTED,
            Self::SnapshotMarker { .. } => record_type::SNAPSHOT_MARKER,
            Self::CustomEvent { .. } => record_type::CUSTOM_EVENT,
            Self::Unknown { record_type, .. } => *record_type,
        }
    }

    /// The type's name, as the table has it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::SegmentOpened { .. } => "SegmentOpened",
            Self::SealSegment { .. } => "SealSegment",
            Self::CompressionStarted { .. } => "CompressionStarted",
            Self::CompressionDone { .. } => "CompressionDone",
            Self::CompressionFailed { .. } => "CompressionFailed",
            Self::UploadStarted { .. } => "UploadStarted",
            Self::UploadDone { .. } => "UploadDone",
            Self::UploadFailed { .. } => "UploadFailed",
            Self::Tier2DeleteQueued { .. } => "Tier2DeleteQueued",
            Self::Tier2Deleted { .. } => "Tier2Deleted",
            Self::HydrationStarted { .. } => "HydrationStarted",
            Self::HydrationDone { .. } => "HydrationDone",
            Self::HydrationFailed { .. } => "HydrationFailed",
            Self::LocalEvicted { .. } => "LocalEvicted",
            Self::SnapshotMarker { .. } => "SnapshotMarker",
            Self::CustomEvent { .. } => "CustomEvent",
            Self::Unknown { .. } => "Unknown",
        }
    }

    /// Bytes of the payload, without padding.
    pub(super) const fn payload_len(&self) -> usize {
        match self {
            Self::SegmentOpened { .. } => fixed_len::SEGMENT_OPENED,
            Self::SealSegment { .. } => fixed_len::SEAL_SEGMENT,
            Self::CompressionDone { .. } => fixed_len::COMPRESSION_DONE,
            Self::CompressionStarted { .. }
            | Self::CompressionFailed { .. }
            | Self::HydrationFailed { .. } => fixed_len::U32,
            Self::HydrationStarted { .. }
            | Self::HydrationDone { .. }
            | Self::LocalEvicted { .. } => fixed_len::U64,
            Self::UploadStarted { key }
            | Self::Tier2DeleteQueued { key }
            | Self::Tier2Deleted { key } => fixed_len::KEY + key.len(),
            Self::UploadDone { key, etag } => fixed_len::UPLOAD_DONE + key.len() + etag.len(),
            Self::UploadFailed { key, .. } => fixed_len::UPLOAD_FAILED + key.len(),
            Self::SnapshotMarker { .. } => fixed_len::SNAPSHOT_MARKER,
            Self::CustomEvent { blob, .. } => fixed_len::CUSTOM_EVENT + blob.len(),
            Self::Unknown { payload, .. } => payload.len(),
        }
    }

    /// Whether a record can hold this event.
    pub(super) fn check(&self) -> Result<(), FormatError> {
        match self {
            Self::UploadStarted { key }
            | Self::UploadFailed { key, .. }
            | Self::Tier2DeleteQueued { key }
            | Self::Tier2Deleted { key } => check_text("key", key.len()),
            Self::UploadDone { key, etag } => {
                check_text("key", key.len())?;
                check_text("etag", etag.len())
            }
            Self::CustomEvent { blob, .. } => check_text("blob", blob.len()),
            Self::Unknown { record_type, payload } => check_unknown(*record_type, payload),
            _ => Ok(()),
        }
    }

    /// Adds the payload to `out`. The event has passed [`check`](Self::check).
    pub(super) fn encode_payload(&self, out: &mut Vec<u8>) {
        match *self {
            Self::SegmentOpened { base_offset, epoch } => {
                out.extend_from_slice(&base_offset.to_le_bytes());
                out.extend_from_slice(&epoch.to_le_bytes());
            }
            Self::SealSegment {
                durable_bytes,
                segment_crc64,
                ext_id,
                coordinator_watermark,
                flush_failure,
            } => {
                for field in [durable_bytes, segment_crc64, ext_id, coordinator_watermark] {
                    out.extend_from_slice(&field.to_le_bytes());
                }
                out.push(u8::from(flush_failure));
            }
            Self::CompressionStarted { job_id } => out.extend_from_slice(&job_id.to_le_bytes()),
            Self::CompressionDone { compressed_bytes, dictionary_id } => {
                out.extend_from_slice(&compressed_bytes.to_le_bytes());
                out.extend_from_slice(&dictionary_id.to_le_bytes());
            }
            Self::CompressionFailed { reason } | Self::HydrationFailed { reason } => {
                out.extend_from_slice(&reason.0.to_le_bytes());
            }
            Self::UploadStarted { key }
            | Self::Tier2DeleteQueued { key }
            | Self::Tier2Deleted { key } => {
                put_len(out, key.len());
                out.extend_from_slice(key.as_bytes());
            }
            Self::UploadDone { key, etag } => {
                put_len(out, key.len());
                put_len(out, etag.len());
                out.extend_from_slice(key.as_bytes());
                out.extend_from_slice(etag.as_bytes());
            }
            Self::UploadFailed { key, reason } => {
                put_len(out, key.len());
                out.extend_from_slice(&reason.0.to_le_bytes());
                out.extend_from_slice(key.as_bytes());
            }
            Self::HydrationStarted { source_tier: field }
            | Self::HydrationDone { resident_bytes: field }
            | Self::LocalEvicted { reclaimed_bytes: field } => {
                out.extend_from_slice(&field.to_le_bytes());
            }
            Self::SnapshotMarker { chunk_index, chunk_offset, snapshot_id } => {
                for field in [chunk_index, chunk_offset, snapshot_id] {
                    out.extend_from_slice(&field.to_le_bytes());
                }
            }
            Self::CustomEvent { schema_id, blob } => {
                out.extend_from_slice(&schema_id.to_le_bytes());
                put_len(out, blob.len());
                out.extend_from_slice(blob);
            }
            Self::Unknown { payload, .. } => out.extend_from_slice(payload),
        }
    }

    /// The event in a payload whose checksum is valid. Inlined, so that the event is
    /// made where it is used instead of being copied there.
    #[inline(always)]
    pub(super) fn decode_payload(kind: u16, payload: &'a [u8]) -> Result<Self, FormatError> {
        Ok(match kind {
            record_type::SEGMENT_OPENED => {
                exact(payload, fixed_len::SEGMENT_OPENED)?;
                Self::SegmentOpened { base_offset: u64_at(payload, 0), epoch: u32_at(payload, 8) }
            }
            record_type::SEAL_SEGMENT => {
                exact(payload, fixed_len::SEAL_SEGMENT)?;
                Self::SealSegment {
                    durable_bytes: u64_at(payload, 0),
                    segment_crc64: u64_at(payload, 8),
                    ext_id: u64_at(payload, 16),
                    coordinator_watermark: u64_at(payload, 24),
                    flush_failure: bool_at(payload, 32)?,
                }
            }
            record_type::COMPRESSION_STARTED => {
                exact(payload, fixed_len::U32)?;
                Self::CompressionStarted { job_id: u32_at(payload, 0) }
            }
            record_type::COMPRESSION_DONE => {
                exact(payload, fixed_len::COMPRESSION_DONE)?;
                Self::CompressionDone {
                    compressed_bytes: u64_at(payload, 0),
                    dictionary_id: u32_at(payload, 8),
                }
            }
            record_type::COMPRESSION_FAILED => {
                exact(payload, fixed_len::U32)?;
                Self::CompressionFailed { reason: ReasonCode(u32_at(payload, 0)) }
            }
            record_type::UPLOAD_STARTED => Self::UploadStarted { key: lone_key(payload)? },
            record_type::UPLOAD_DONE => {
                let (key, etag) = key_and_etag(payload)?;
                Self::UploadDone { key, etag }
            }
            record_type::UPLOAD_FAILED => {
                let key = rest(payload, fixed_len::UPLOAD_FAILED, u16_at(payload, 0))?;
                let reason = ReasonCode(u32_at(payload, 2));
                Self::UploadFailed { key: text("key", key)?, reason }
            }
            record_type::TIER2_DELETE_QUEUED => Self::Tier2DeleteQueued { key: lone_key(payload)? },
            record_type::TIER2_DELETED => Self::Tier2Deleted { key: lone_key(payload)? },
            record_type::HYDRATION_STARTED => {
                exact(payload, fixed_len::U64)?;
                Self::HydrationStarted { source_tier: u64_at(payload, 0) }
            }
            record_type::HYDRATION_DONE => {
                exact(payload, fixed_len::U64)?;
                Self::HydrationDone { resident_bytes: u64_at(payload, 0) }
            }
            record_type::HYDRATION_FAILED => {
                exact(payload, fixed_len::U32)?;
                Self::HydrationFailed { reason: ReasonCode(u32_at(payload, 0)) }
            }
            record_type::LOCAL_EVICTED => {
                exact(payload, fixed_len::U64)?;
                Self::LocalEvicted { reclaimed_bytes: u64_at(payload, 0) }
            }
            record_type::SNAPSHOT_MARKER => {
                exact(payload, fixed_len::SNAPSHOT_MARKER)?;
                Self::SnapshotMarker {
                    chunk_index: u64_at(payload, 0),
                    chunk_offset: u64_at(payload, 8),
                    snapshot_id: u64_at(payload, 16),
                }
            }
            record_type::CUSTOM_EVENT => Self::CustomEvent {
                schema_id: u32_at(payload, 0),
                blob: rest(payload, fixed_len::CUSTOM_EVENT, u16_at(payload, 4))?,
            },
            record_type => Self::Unknown { record_type, payload },
        })
    }
}

/// A length that [`check_text`] has accepted.
fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&(len as u16).to_le_bytes());
}

fn check_text(field: &'static str, len: usize) -> Result<(), FormatError> {
    if len > TEXT_LEN_MAX {
        return Err(FormatError::BadField { field, reason: "longer than 65535 bytes" });
    }
    Ok(())
}

fn check_unknown(record_type: u16, payload: &[u8]) -> Result<(), FormatError> {
    let bad = |field, reason| Err(FormatError::BadField { field, reason });
    if record_type < record_type::UNKNOWN {
        return bad("record_type", "a known type without its fields");
    }
    match payload.len() {
        0 => bad("payload_len", "empty payload"),
        len if len > PAYLOAD_LEN_MAX => bad("payload_len", "longer than any chunk"),
        _ => Ok(()),
    }
}

const BAD_LEN: FormatError =
    FormatError::BadField { field: "payload_len", reason: "not the length of its fields" };

#[inline]
fn exact(payload: &[u8], len: usize) -> Result<(), FormatError> {
    if payload.len() == len { Ok(()) } else { Err(BAD_LEN) }
}

/// What stands behind the fixed part, which must be all of `len` bytes.
#[inline]
fn rest(payload: &[u8], fixed_len: usize, len: u16) -> Result<&[u8], FormatError> {
    exact(payload, fixed_len + usize::from(len))?;
    Ok(payload.get(fixed_len..).unwrap_or_default())
}

#[inline]
fn lone_key(payload: &[u8]) -> Result<&str, FormatError> {
    text("key", rest(payload, fixed_len::KEY, u16_at(payload, 0))?)
}

#[inline]
fn key_and_etag(payload: &[u8]) -> Result<(&str, &str), FormatError> {
    let (key_len, etag_len) = (usize::from(u16_at(payload, 0)), usize::from(u16_at(payload, 2)));
    exact(payload, fixed_len::UPLOAD_DONE + key_len + etag_len)?;
    let texts = payload.get(fixed_len::UPLOAD_DONE..).unwrap_or_default();
    let (key, etag) = texts.split_at_checked(key_len).ok_or(BAD_LEN)?;
    Ok((text("key", key)?, text("etag", etag)?))
}

#[inline]
fn text<'a>(field: &'static str, bytes: &'a [u8]) -> Result<&'a str, FormatError> {
    std::str::from_utf8(bytes).map_err(|_| FormatError::BadField { field, reason: "not utf-8" })
}

#[inline]
fn bool_at(payload: &[u8], at: usize) -> Result<bool, FormatError> {
    match payload.get(at) {
        Some(0) => Ok(false),
        Some(1) => Ok(true),
        _ => Err(FormatError::BadField { field: "flush_failure", reason: "neither 0 nor 1" }),
    }
}
