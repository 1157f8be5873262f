//! The entries of a snapshot: fixed-size structs that refer to a string area.
//!
//! ```text
//! segment, 160 bytes
//!    0 u64 segment_id        8 u64 base_offset        16 u32 epoch
//!   20 u32 present          24 u64 opened_at_ms       32 u64 updated_at_ms
//!   40 u64 last_record      48 u64 durable_bytes      56 u64 segment_crc64
//!   64 u64 ext_id           72 u64 watermark          80 u64 sealed_at_ms
//!   88 u64 warm_bytes       96 u32 dictionary_id     100 u32 compression_job
//!  104 u64 hydration_source 112 u64 resident_bytes   120 u64 reclaimed_bytes
//!  128 u32 compression_failure 132 u32 upload_failure
//!  136 u32 hydration_failure   140 u32 zero
//!  144 u64 strings_offset   152 u32 cold_key_len     156 u32 cold_etag_len
//! pending upload, 64 bytes
//!    0 u64 segment_id        8 u64 logical_offset     16 u64 started_at_ms
//!   24 u64 updated_at_ms    32 u64 last_record        40 u32 attempts
//!   44 u32 present          48 u32 failure            52 u32 key_len
//!   56 u64 strings_offset
//! pending delete, 40 bytes
//!    0 u64 segment_id        8 u64 queued_at_ms       16 u64 last_record
//!   24 u64 strings_offset   32 u32 key_len            36 u32 zero
//! unresolved record, 32 bytes; the record's bytes are a "string"
//!    0 u64 segment_id        8 u64 ordinal
//!   16 u64 strings_offset   24 u32 record_len         28 u32 zero
//! ```
//!
//! `present` says which optional fields have a value, one bit each; a field without
//! one is zero. A segment's key and ETag stand one behind the other.

use crate::format::bytes::{put, u32_at, u64_at};
use crate::format::{FormatError, SegmentId};

use super::state::{ManifestSegment, PendingDelete, PendingUpload, UnresolvedRecord};
use super::{ManifestRecord, ReasonCode};

mod segment {
    pub const SEGMENT_ID: usize = 0;
    pub const BASE_OFFSET: usize = SEGMENT_ID + 8;
    pub const EPOCH: usize = BASE_OFFSET + 8;
    pub const PRESENT: usize = EPOCH + 4;
    pub const OPENED_AT_MS: usize = PRESENT + 4;
    pub const UPDATED_AT_MS: usize = OPENED_AT_MS + 8;
    pub const LAST_RECORD: usize = UPDATED_AT_MS + 8;
    pub const DURABLE_BYTES: usize = LAST_RECORD + 8;
    pub const SEGMENT_CRC64: usize = DURABLE_BYTES + 8;
    pub const EXT_ID: usize = SEGMENT_CRC64 + 8;
    pub const WATERMARK: usize = EXT_ID + 8;
    pub const SEALED_AT_MS: usize = WATERMARK + 8;
    pub const WARM_BYTES: usize = SEALED_AT_MS + 8;
    pub const DICTIONARY_ID: usize = WARM_BYTES + 8;
    pub const COMPRESSION_JOB: usize = DICTIONARY_ID + 4;
    pub const HYDRATION_SOURCE: usize = COMPRESSION_JOB + 4;
    pub const RESIDENT_BYTES: usize = HYDRATION_SOURCE + 8;
    pub const RECLAIMED_BYTES: usize = RESIDENT_BYTES + 8;
    pub const COMPRESSION_FAILURE: usize = RECLAIMED_BYTES + 8;
    pub const UPLOAD_FAILURE: usize = COMPRESSION_FAILURE + 4;
    pub const HYDRATION_FAILURE: usize = UPLOAD_FAILURE + 4;
    pub const ZERO: usize = HYDRATION_FAILURE + 4;
    pub const STRINGS_OFFSET: usize = ZERO + 4;
    pub const COLD_KEY_LEN: usize = STRINGS_OFFSET + 8;
    pub const COLD_ETAG_LEN: usize = COLD_KEY_LEN + 4;
    pub const LEN: usize = COLD_ETAG_LEN + 4;
}

/// The bits of a segment's `present`.
mod present {
    pub const HOT: u32 = 1;
    pub const DURABLE_BYTES: u32 = 1 << 1;
    pub const SEGMENT_CRC64: u32 = 1 << 2;
    pub const EXT_ID: u32 = 1 << 3;
    pub const WATERMARK: u32 = 1 << 4;
    pub const SEALED_AT_MS: u32 = 1 << 5;
    pub const FLUSH_FAILURE: u32 = 1 << 6;
    /// The value of `flush_failure` itself.
    pub const FLUSH_FAILED: u32 = 1 << 7;
    pub const WARM_BYTES: u32 = 1 << 8;
    pub const DICTIONARY_ID: u32 = 1 << 9;
    pub const COLD_KEY: u32 = 1 << 10;
    pub const COLD_ETAG: u32 = 1 << 11;
    pub const COMPRESSION_JOB: u32 = 1 << 12;
    pub const HYDRATION_SOURCE: u32 = 1 << 13;
    pub const COMPRESSION_FAILURE: u32 = 1 << 14;
    pub const UPLOAD_FAILURE: u32 = 1 << 15;
    pub const HYDRATION_FAILURE: u32 = 1 << 16;
    pub const ALL: u32 = (HYDRATION_FAILURE << 1) - 1;
}

mod upload {
    pub const SEGMENT_ID: usize = 0;
    pub const LOGICAL_OFFSET: usize = SEGMENT_ID + 8;
    pub const STARTED_AT_MS: usize = LOGICAL_OFFSET + 8;
    pub const UPDATED_AT_MS: usize = STARTED_AT_MS + 8;
    pub const LAST_RECORD: usize = UPDATED_AT_MS + 8;
    pub const ATTEMPTS: usize = LAST_RECORD + 8;
    pub const PRESENT: usize = ATTEMPTS + 4;
    pub const FAILURE: usize = PRESENT + 4;
    pub const KEY_LEN: usize = FAILURE + 4;
    pub const STRINGS_OFFSET: usize = KEY_LEN + 4;
    pub const LEN: usize = STRINGS_OFFSET + 8;
    /// The only bit of `present`.
    pub const HAS_FAILURE: u32 = 1;
}

mod delete {
    pub const SEGMENT_ID: usize = 0;
    pub const QUEUED_AT_MS: usize = SEGMENT_ID + 8;
    pub const LAST_RECORD: usize = QUEUED_AT_MS + 8;
    pub const STRINGS_OFFSET: usize = LAST_RECORD + 8;
    pub const KEY_LEN: usize = STRINGS_OFFSET + 8;
    pub const ZERO: usize = KEY_LEN + 4;
    pub const LEN: usize = ZERO + 4;
}

mod unresolved {
    pub const SEGMENT_ID: usize = 0;
    pub const ORDINAL: usize = SEGMENT_ID + 8;
    pub const STRINGS_OFFSET: usize = ORDINAL + 8;
    pub const RECORD_LEN: usize = STRINGS_OFFSET + 8;
    pub const ZERO: usize = RECORD_LEN + 4;
    pub const LEN: usize = ZERO + 4;
}

pub(super) const SEGMENT_LEN: usize = segment::LEN;
pub(super) const UPLOAD_LEN: usize = upload::LEN;
pub(super) const DELETE_LEN: usize = delete::LEN;
pub(super) const UNRESOLVED_LEN: usize = unresolved::LEN;

const _: () = assert!(SEGMENT_LEN == 160 && UPLOAD_LEN == 64);
const _: () = assert!(DELETE_LEN == 40 && UNRESOLVED_LEN == 32);

/// The string area while it is written.
#[derive(Default)]
pub(super) struct Strings {
    bytes: Vec<u8>,
}

impl Strings {
    fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds a string and gives its length.
    fn push(&mut self, bytes: &[u8]) -> u32 {
        self.bytes.extend_from_slice(bytes);
        bytes.len() as u32
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The string area while it is read: each string once, in order.
pub(super) struct StringsReader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> StringsReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    fn expect_offset(&self, found: u64) -> Result<(), FormatError> {
        if found == self.offset as u64 {
            Ok(())
        } else {
            Err(bad("strings_offset", "not behind the string before"))
        }
    }

    fn take(&mut self, len: u32) -> Result<&'a [u8], FormatError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        let taken = rest.get(..len as usize).ok_or(bad("strings_len", "a string reaches past"))?;
        self.offset += taken.len();
        Ok(taken)
    }

    fn take_text(&mut self, len: u32) -> Result<String, FormatError> {
        let bytes = self.take(len)?;
        let text = std::str::from_utf8(bytes).map_err(|_| bad("string", "not utf-8"))?;
        Ok(text.to_owned())
    }

    /// All strings belong to an entry.
    pub(super) fn finish(&self) -> Result<(), FormatError> {
        if self.offset == self.bytes.len() {
            Ok(())
        } else {
            Err(bad("strings_len", "a string without an entry"))
        }
    }
}

/// Writes optional fields and notes which of them have a value.
struct OptionWriter<'a> {
    entry: &'a mut [u8],
    present: u32,
}

impl OptionWriter<'_> {
    fn set(&mut self, bit: u32, value: bool) {
        if value {
            self.present |= bit;
        }
    }

    fn u64(&mut self, at: usize, bit: u32, value: Option<u64>) {
        self.set(bit, value.is_some());
        put(self.entry, at, value.unwrap_or(0).to_le_bytes());
    }

    fn u32(&mut self, at: usize, bit: u32, value: Option<u32>) {
        self.set(bit, value.is_some());
        put(self.entry, at, value.unwrap_or(0).to_le_bytes());
    }
}

/// Reads optional fields; a value without its bit is refused.
struct OptionReader<'a> {
    entry: &'a [u8],
    present: u32,
}

impl OptionReader<'_> {
    fn has(&self, bit: u32) -> bool {
        self.present & bit != 0
    }

    fn u64(&self, at: usize, bit: u32) -> Result<Option<u64>, FormatError> {
        match (self.has(bit), u64_at(self.entry, at)) {
            (true, value) => Ok(Some(value)),
            (false, 0) => Ok(None),
            (false, _) => Err(bad("present", "a value that is not there")),
        }
    }

    fn u32(&self, at: usize, bit: u32) -> Result<Option<u32>, FormatError> {
        match (self.has(bit), u32_at(self.entry, at)) {
            (true, value) => Ok(Some(value)),
            (false, 0) => Ok(None),
            (false, _) => Err(bad("present", "a value that is not there")),
        }
    }

    fn text(
        &self,
        bit: u32,
        len_at: usize,
        strings: &mut StringsReader<'_>,
    ) -> Result<Option<String>, FormatError> {
        match self.u32(len_at, bit)? {
            Some(len) => strings.take_text(len).map(Some),
            None => Ok(None),
        }
    }
}

pub(super) fn encode_segment(from: &ManifestSegment, strings: &mut Strings, out: &mut Vec<u8>) {
    use segment as at;
    let mut entry = [0; SEGMENT_LEN];
    put(&mut entry, at::SEGMENT_ID, from.segment_id.as_u64().to_le_bytes());
    put(&mut entry, at::BASE_OFFSET, from.base_offset.to_le_bytes());
    put(&mut entry, at::EPOCH, from.epoch.to_le_bytes());
    put(&mut entry, at::OPENED_AT_MS, from.opened_at_ms.to_le_bytes());
    put(&mut entry, at::UPDATED_AT_MS, from.updated_at_ms.to_le_bytes());
    put(&mut entry, at::LAST_RECORD, from.last_record.to_le_bytes());
    put(&mut entry, at::RESIDENT_BYTES, from.resident_bytes.to_le_bytes());
    put(&mut entry, at::RECLAIMED_BYTES, from.reclaimed_bytes.to_le_bytes());
    put(&mut entry, at::STRINGS_OFFSET, strings.offset().to_le_bytes());
    let cold_key_len = from.cold_key.as_ref().map(|key| strings.push(key.as_bytes()));
    let cold_etag_len = from.cold_etag.as_ref().map(|etag| strings.push(etag.as_bytes()));
    let mut options = OptionWriter { entry: &mut entry, present: 0 };
    options.set(present::HOT, from.hot);
    options.set(present::FLUSH_FAILURE, from.flush_failure.is_some());
    options.set(present::FLUSH_FAILED, from.flush_failure == Some(true));
    options.u64(at::DURABLE_BYTES, present::DURABLE_BYTES, from.durable_bytes);
    options.u64(at::SEGMENT_CRC64, present::SEGMENT_CRC64, from.segment_crc64);
    options.u64(at::EXT_ID, present::EXT_ID, from.ext_id);
    options.u64(at::WATERMARK, present::WATERMARK, from.watermark);
    options.u64(at::SEALED_AT_MS, present::SEALED_AT_MS, from.sealed_at_ms);
    options.u64(at::WARM_BYTES, present::WARM_BYTES, from.warm_bytes);
    options.u32(at::DICTIONARY_ID, present::DICTIONARY_ID, from.dictionary_id);
    options.u32(at::COMPRESSION_JOB, present::COMPRESSION_JOB, from.compression_job);
    options.u64(at::HYDRATION_SOURCE, present::HYDRATION_SOURCE, from.hydration_source);
    options.u32(at::COMPRESSION_FAILURE, present::COMPRESSION_FAILURE, from.compression_failure);
    options.u32(at::UPLOAD_FAILURE, present::UPLOAD_FAILURE, from.upload_failure);
    options.u32(at::HYDRATION_FAILURE, present::HYDRATION_FAILURE, from.hydration_failure);
    options.u32(at::COLD_KEY_LEN, present::COLD_KEY, cold_key_len);
    options.u32(at::COLD_ETAG_LEN, present::COLD_ETAG, cold_etag_len);
    let present = options.present;
    put(&mut entry, at::PRESENT, present.to_le_bytes());
    out.extend_from_slice(&entry);
}

pub(super) fn decode_segment(
    entry: &[u8; SEGMENT_LEN],
    strings: &mut StringsReader<'_>,
) -> Result<ManifestSegment, FormatError> {
    use segment as at;
    let options = OptionReader { entry, present: u32_at(entry, at::PRESENT) };
    if options.present & !present::ALL != 0 {
        return Err(bad("present", "unknown bits"));
    }
    if u32_at(entry, at::ZERO) != 0 {
        return Err(bad("zero", "not zero"));
    }
    let flush_failure =
        match (options.has(present::FLUSH_FAILURE), options.has(present::FLUSH_FAILED)) {
            (true, failed) => Some(failed),
            (false, false) => None,
            (false, true) => return Err(bad("present", "a value that is not there")),
        };
    strings.expect_offset(u64_at(entry, at::STRINGS_OFFSET))?;
    Ok(ManifestSegment {
        segment_id: SegmentId::from_u64(u64_at(entry, at::SEGMENT_ID)),
        base_offset: u64_at(entry, at::BASE_OFFSET),
        epoch: u32_at(entry, at::EPOCH),
        opened_at_ms: u64_at(entry, at::OPENED_AT_MS),
        updated_at_ms: u64_at(entry, at::UPDATED_AT_MS),
        last_record: u64_at(entry, at::LAST_RECORD),
        hot: options.has(present::HOT),
        durable_bytes: options.u64(at::DURABLE_BYTES, present::DURABLE_BYTES)?,
        segment_crc64: options.u64(at::SEGMENT_CRC64, present::SEGMENT_CRC64)?,
        ext_id: options.u64(at::EXT_ID, present::EXT_ID)?,
        watermark: options.u64(at::WATERMARK, present::WATERMARK)?,
        sealed_at_ms: options.u64(at::SEALED_AT_MS, present::SEALED_AT_MS)?,
        flush_failure,
        warm_bytes: options.u64(at::WARM_BYTES, present::WARM_BYTES)?,
        dictionary_id: options.u32(at::DICTIONARY_ID, present::DICTIONARY_ID)?,
        cold_key: options.text(present::COLD_KEY, at::COLD_KEY_LEN, strings)?,
        cold_etag: options.text(present::COLD_ETAG, at::COLD_ETAG_LEN, strings)?,
        resident_bytes: u64_at(entry, at::RESIDENT_BYTES),
        reclaimed_bytes: u64_at(entry, at::RECLAIMED_BYTES),
        compression_job: options.u32(at::COMPRESSION_JOB, present::COMPRESSION_JOB)?,
        hydration_source: options.u64(at::HYDRATION_SOURCE, present::HYDRATION_SOURCE)?,
        compression_failure: options.u32(at::COMPRESSION_FAILURE, present::COMPRESSION_FAILURE)?,
        upload_failure: options.u32(at::UPLOAD_FAILURE, present::UPLOAD_FAILURE)?,
        hydration_failure: options.u32(at::HYDRATION_FAILURE, present::HYDRATION_FAILURE)?,
    })
}

pub(super) fn encode_upload(from: &PendingUpload, strings: &mut Strings, out: &mut Vec<u8>) {
    use upload as at;
    let mut entry = [0; UPLOAD_LEN];
    put(&mut entry, at::SEGMENT_ID, from.segment_id.as_u64().to_le_bytes());
    put(&mut entry, at::LOGICAL_OFFSET, from.logical_offset.to_le_bytes());
    put(&mut entry, at::STARTED_AT_MS, from.started_at_ms.to_le_bytes());
    put(&mut entry, at::UPDATED_AT_MS, from.updated_at_ms.to_le_bytes());
    put(&mut entry, at::LAST_RECORD, from.last_record.to_le_bytes());
    put(&mut entry, at::ATTEMPTS, from.attempts.to_le_bytes());
    put(&mut entry, at::STRINGS_OFFSET, strings.offset().to_le_bytes());
    put(&mut entry, at::KEY_LEN, strings.push(from.key.as_bytes()).to_le_bytes());
    let mut options = OptionWriter { entry: &mut entry, present: 0 };
    options.u32(at::FAILURE, at::HAS_FAILURE, from.failure.map(|reason| reason.0));
    let present = options.present;
    put(&mut entry, at::PRESENT, present.to_le_bytes());
    out.extend_from_slice(&entry);
}

pub(super) fn decode_upload(
    entry: &[u8; UPLOAD_LEN],
    strings: &mut StringsReader<'_>,
) -> Result<PendingUpload, FormatError> {
    use upload as at;
    let options = OptionReader { entry, present: u32_at(entry, at::PRESENT) };
    if options.present & !at::HAS_FAILURE != 0 {
        return Err(bad("present", "unknown bits"));
    }
    strings.expect_offset(u64_at(entry, at::STRINGS_OFFSET))?;
    Ok(PendingUpload {
        key: strings.take_text(u32_at(entry, at::KEY_LEN))?,
        segment_id: SegmentId::from_u64(u64_at(entry, at::SEGMENT_ID)),
        logical_offset: u64_at(entry, at::LOGICAL_OFFSET),
        started_at_ms: u64_at(entry, at::STARTED_AT_MS),
        updated_at_ms: u64_at(entry, at::UPDATED_AT_MS),
        last_record: u64_at(entry, at::LAST_RECORD),
        attempts: u32_at(entry, at::ATTEMPTS),
        failure: options.u32(at::FAILURE, at::HAS_FAILURE)?.map(ReasonCode),
    })
}

pub(super) fn encode_delete(from: &PendingDelete, strings: &mut Strings, out: &mut Vec<u8>) {
    use delete as at;
    let mut entry = [0; DELETE_LEN];
    put(&mut entry, at::SEGMENT_ID, from.segment_id.as_u64().to_le_bytes());
    put(&mut entry, at::QUEUED_AT_MS, from.queued_at_ms.to_le_bytes());
    put(&mut entry, at::LAST_RECORD, from.last_record.to_le_bytes());
    put(&mut entry, at::STRINGS_OFFSET, strings.offset().to_le_bytes());
    put(&mut entry, at::KEY_LEN, strings.push(from.key.as_bytes()).to_le_bytes());
    out.extend_from_slice(&entry);
}

pub(super) fn decode_delete(
    entry: &[u8; DELETE_LEN],
    strings: &mut StringsReader<'_>,
) -> Result<PendingDelete, FormatError> {
    use delete as at;
    if u32_at(entry, at::ZERO) != 0 {
        return Err(bad("zero", "not zero"));
    }
    strings.expect_offset(u64_at(entry, at::STRINGS_OFFSET))?;
    Ok(PendingDelete {
        key: strings.take_text(u32_at(entry, at::KEY_LEN))?,
        segment_id: SegmentId::from_u64(u64_at(entry, at::SEGMENT_ID)),
        queued_at_ms: u64_at(entry, at::QUEUED_AT_MS),
        last_record: u64_at(entry, at::LAST_RECORD),
    })
}

pub(super) fn encode_unresolved(from: &UnresolvedRecord, strings: &mut Strings, out: &mut Vec<u8>) {
    use unresolved as at;
    let mut entry = [0; UNRESOLVED_LEN];
    put(&mut entry, at::SEGMENT_ID, from.segment_id.as_u64().to_le_bytes());
    put(&mut entry, at::ORDINAL, from.ordinal.to_le_bytes());
    put(&mut entry, at::STRINGS_OFFSET, strings.offset().to_le_bytes());
    put(&mut entry, at::RECORD_LEN, strings.push(&from.bytes).to_le_bytes());
    out.extend_from_slice(&entry);
}

/// The record inside is verified like one in a chunk.
pub(super) fn decode_unresolved(
    entry: &[u8; UNRESOLVED_LEN],
    strings: &mut StringsReader<'_>,
) -> Result<UnresolvedRecord, FormatError> {
    use unresolved as at;
    if u32_at(entry, at::ZERO) != 0 {
        return Err(bad("zero", "not zero"));
    }
    strings.expect_offset(u64_at(entry, at::STRINGS_OFFSET))?;
    let bytes = strings.take(u32_at(entry, at::RECORD_LEN))?;
    let segment_id = SegmentId::from_u64(u64_at(entry, at::SEGMENT_ID));
    let (record, record_len) = ManifestRecord::decode(bytes)?;
    if record_len != bytes.len() || record.segment_id != segment_id {
        return Err(bad("unresolved", "not the record of its entry"));
    }
    let ordinal = u64_at(entry, at::ORDINAL);
    Ok(UnresolvedRecord { segment_id, ordinal, bytes: bytes.to_vec() })
}

const fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}
