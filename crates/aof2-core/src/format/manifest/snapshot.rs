//! A snapshot of the manifest's state. Spec: docs/format.md#manifest-snapshots
//!
//! ```text
//! header, 128 bytes
//!    0 u64 magic "AOF2SNAP"          8 u32 version = 3        12 u32 header_len = 128
//!   16 u64 snapshot_id              24 u64 entry_count
//!   32 u64 chunk_index              40 u64 chunk_offset
//!   48 u64 next_record              56 u64 opened_end
//!   64 u64 pending_upload_count     72 u64 pending_delete_count
//!   80 u64 unresolved_count         88 u64 strings_len
//!   96 u64 unknown_records         104 u64 late_records
//!  112 u64 unresolved_dropped      120 u64 unknown_flags
//! entries, each table sorted, see `snapshot_entry`
//!   entry_count x 160, pending_upload_count x 64,
//!   pending_delete_count x 40, unresolved_count x 32
//! string area, strings_len bytes and zeros up to a multiple of 8
//! u64 crc64 of everything before it
//! ```
//!
//! The strings stand in the order of the entries that refer to them, without holes
//! and none twice. So there is one way to write a state down, and a hostile file
//! cannot make many entries out of one long string: what a decoder builds is never
//! much larger than what it was given.

use crate::format::bytes::{all_zero, put, u32_at, u64_at};
use crate::format::{FormatError, crc64};

use super::chunk::CHUNK_HEADER_LEN;
use super::record::RECORD_ALIGN;
use super::snapshot_entry::{
    DELETE_LEN, SEGMENT_LEN, Strings, StringsReader, UNRESOLVED_LEN, UPLOAD_LEN, decode_delete,
    decode_segment, decode_unresolved, decode_upload, encode_delete, encode_segment,
    encode_unresolved, encode_upload,
};
use super::state::{FoldCounts, ManifestSegment, PendingDelete, PendingUpload, UnresolvedRecord};

const MAGIC: u64 = 0x414F_4632_534E_4150;
const VERSION: u32 = 3;

mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = MAGIC + 8;
    pub const HEADER_LEN: usize = VERSION + 4;
    pub const SNAPSHOT_ID: usize = HEADER_LEN + 4;
    pub const ENTRY_COUNT: usize = SNAPSHOT_ID + 8;
    pub const CHUNK_INDEX: usize = ENTRY_COUNT + 8;
    pub const CHUNK_OFFSET: usize = CHUNK_INDEX + 8;
    pub const NEXT_RECORD: usize = CHUNK_OFFSET + 8;
    pub const OPENED_END: usize = NEXT_RECORD + 8;
    pub const PENDING_UPLOAD_COUNT: usize = OPENED_END + 8;
    pub const PENDING_DELETE_COUNT: usize = PENDING_UPLOAD_COUNT + 8;
    pub const UNRESOLVED_COUNT: usize = PENDING_DELETE_COUNT + 8;
    pub const STRINGS_LEN: usize = UNRESOLVED_COUNT + 8;
    pub const UNKNOWN_RECORDS: usize = STRINGS_LEN + 8;
    pub const LATE_RECORDS: usize = UNKNOWN_RECORDS + 8;
    pub const UNRESOLVED_DROPPED: usize = LATE_RECORDS + 8;
    pub const UNKNOWN_FLAGS: usize = UNRESOLVED_DROPPED + 8;
    pub const LEN: usize = UNKNOWN_FLAGS + 8;
}

const CRC_LEN: usize = 8;
/// Strings are padded to this.
const STRINGS_ALIGN: usize = 8;

/// The length of a snapshot of nothing.
pub const SNAPSHOT_LEN_MIN: usize = header::LEN + CRC_LEN;
/// No snapshot is longer; a reader need not load more.
pub const SNAPSHOT_LEN_MAX: usize = 1 << 30;

const _: () = assert!(header::LEN == 128 && SNAPSHOT_LEN_MIN == 136);

/// The state after all records before a position in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotImage {
    /// Which snapshot this is; ids of one manifest only grow.
    pub snapshot_id: u64,
    /// Chunk of the position.
    pub chunk_index: u64,
    /// Byte in the chunk where the first record that is not in the snapshot starts
    /// or would start.
    pub chunk_offset: u64,
    /// Ordinal of that record.
    pub next_record: u64,
    /// One more than the largest segment id ever opened, 0 for none.
    pub opened_end: u64,
    /// Segments, by id.
    pub segments: Vec<ManifestSegment>,
    /// Uploads under way, by key.
    pub pending_uploads: Vec<PendingUpload>,
    /// Deletions under way, by key.
    pub pending_deletes: Vec<PendingDelete>,
    /// Records about segments not opened yet, by segment and ordinal.
    pub unresolved: Vec<UnresolvedRecord>,
    /// What changed no segment.
    pub counts: FoldCounts,
}

impl SnapshotImage {
    /// The file's bytes. Ids, keys and ordinals in each table are distinct and
    /// grow.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; header::LEN];
        let mut strings = Strings::default();
        for segment in &self.segments {
            encode_segment(segment, &mut strings, &mut out);
        }
        for upload in &self.pending_uploads {
            encode_upload(upload, &mut strings, &mut out);
        }
        for delete in &self.pending_deletes {
            encode_delete(delete, &mut strings, &mut out);
        }
        for record in &self.unresolved {
            encode_unresolved(record, &mut strings, &mut out);
        }
        let strings = strings.into_bytes();
        self.encode_header(strings.len() as u64, &mut out);
        out.extend_from_slice(&strings);
        out.resize(out.len().next_multiple_of(STRINGS_ALIGN), 0);
        let crc = crc64(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn encode_header(&self, strings_len: u64, out: &mut [u8]) {
        put(out, header::MAGIC, MAGIC.to_le_bytes());
        put(out, header::VERSION, VERSION.to_le_bytes());
        put(out, header::HEADER_LEN, (header::LEN as u32).to_le_bytes());
        let counts = &self.counts;
        let fields = [
            (header::SNAPSHOT_ID, self.snapshot_id),
            (header::ENTRY_COUNT, self.segments.len() as u64),
            (header::CHUNK_INDEX, self.chunk_index),
            (header::CHUNK_OFFSET, self.chunk_offset),
            (header::NEXT_RECORD, self.next_record),
            (header::OPENED_END, self.opened_end),
            (header::PENDING_UPLOAD_COUNT, self.pending_uploads.len() as u64),
            (header::PENDING_DELETE_COUNT, self.pending_deletes.len() as u64),
            (header::UNRESOLVED_COUNT, self.unresolved.len() as u64),
            (header::STRINGS_LEN, strings_len),
            (header::UNKNOWN_RECORDS, counts.unknown_records),
            (header::LATE_RECORDS, counts.late_records),
            (header::UNRESOLVED_DROPPED, counts.unresolved_dropped),
            (header::UNKNOWN_FLAGS, u64::from(counts.unknown_flags)),
        ];
        for (at, field) in fields {
            put(out, at, field.to_le_bytes());
        }
    }

    /// The state in a snapshot's bytes, which must be the whole file.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let (tables, mut strings) = check_frame(bytes)?;
        let mut segments = Vec::with_capacity(tables.segments.len() / SEGMENT_LEN);
        for entry in tables.segments.as_chunks().0 {
            segments.push(decode_segment(entry, &mut strings)?);
        }
        let mut pending_uploads = Vec::with_capacity(tables.uploads.len() / UPLOAD_LEN);
        for entry in tables.uploads.as_chunks().0 {
            pending_uploads.push(decode_upload(entry, &mut strings)?);
        }
        let mut pending_deletes = Vec::with_capacity(tables.deletes.len() / DELETE_LEN);
        for entry in tables.deletes.as_chunks().0 {
            pending_deletes.push(decode_delete(entry, &mut strings)?);
        }
        let mut unresolved = Vec::with_capacity(tables.unresolved.len() / UNRESOLVED_LEN);
        for entry in tables.unresolved.as_chunks().0 {
            unresolved.push(decode_unresolved(entry, &mut strings)?);
        }
        strings.finish()?;
        let image = Self {
            snapshot_id: u64_at(bytes, header::SNAPSHOT_ID),
            chunk_index: u64_at(bytes, header::CHUNK_INDEX),
            chunk_offset: u64_at(bytes, header::CHUNK_OFFSET),
            next_record: u64_at(bytes, header::NEXT_RECORD),
            opened_end: u64_at(bytes, header::OPENED_END),
            segments,
            pending_uploads,
            pending_deletes,
            unresolved,
            counts: decode_counts(bytes)?,
        };
        image.check()?;
        Ok(image)
    }

    /// Values no writer gives, even under a valid checksum.
    fn check(&self) -> Result<(), FormatError> {
        let offset = self.chunk_offset;
        if offset < CHUNK_HEADER_LEN as u64 || !offset.is_multiple_of(RECORD_ALIGN as u64) {
            return Err(bad("chunk_offset", "not where a record can start"));
        }
        if !self.segments.is_sorted_by(|a, b| a.segment_id < b.segment_id) {
            return Err(bad("segment_id", "segments not in order"));
        }
        let last_id = self.segments.last().map(|segment| segment.segment_id.as_u64());
        if last_id.is_some_and(|id| id.saturating_add(1) > self.opened_end) {
            return Err(bad("opened_end", "not behind the last segment"));
        }
        if !self.pending_uploads.is_sorted_by(|a, b| a.key < b.key) {
            return Err(bad("key", "pending uploads not in order"));
        }
        if !self.pending_deletes.is_sorted_by(|a, b| a.key < b.key) {
            return Err(bad("key", "pending deletes not in order"));
        }
        let place = |record: &UnresolvedRecord| (record.segment_id, record.ordinal);
        if !self.unresolved.is_sorted_by(|a, b| place(a) < place(b)) {
            return Err(bad("ordinal", "unresolved records not in order"));
        }
        Ok(())
    }
}

/// The bytes of each table.
struct Tables<'a> {
    segments: &'a [u8],
    uploads: &'a [u8],
    deletes: &'a [u8],
    unresolved: &'a [u8],
}

/// Checks everything that comes before the meaning of single entries: magic,
/// version, lengths, checksum.
fn check_frame(bytes: &[u8]) -> Result<(Tables<'_>, StringsReader<'_>), FormatError> {
    if bytes.len() < SNAPSHOT_LEN_MIN {
        return Err(FormatError::TooShort { needed: SNAPSHOT_LEN_MIN, available: bytes.len() });
    }
    let magic = u64_at(bytes, header::MAGIC);
    if magic != MAGIC {
        return Err(FormatError::BadMagic { found: magic });
    }
    let version = u32_at(bytes, header::VERSION);
    if version != VERSION {
        return Err(FormatError::UnsupportedVersion { found: version });
    }
    if bytes.len() > SNAPSHOT_LEN_MAX {
        return Err(bad("length", "longer than any snapshot"));
    }
    let (body, found) = bytes.split_at(bytes.len() - CRC_LEN);
    let (expected, found) = (crc64(body), u64_at(found, 0));
    if expected != found {
        return Err(FormatError::BadChecksum { expected, found });
    }
    if u32_at(bytes, header::HEADER_LEN) != header::LEN as u32 {
        return Err(bad("header_len", "not 128"));
    }
    let mut rest = Some(&body[header::LEN..]);
    let mut table = |count_at: usize, entry_len: usize| -> Option<&[u8]> {
        let len = usize::try_from(u64_at(bytes, count_at)).ok()?.checked_mul(entry_len)?;
        let (table, behind) = rest?.split_at_checked(len)?;
        rest = Some(behind);
        Some(table)
    };
    let too_many = |field| move || bad(field, "more than the file holds");
    let tables = Tables {
        segments: table(header::ENTRY_COUNT, SEGMENT_LEN).ok_or_else(too_many("entry_count"))?,
        uploads: table(header::PENDING_UPLOAD_COUNT, UPLOAD_LEN)
            .ok_or_else(too_many("pending_upload_count"))?,
        deletes: table(header::PENDING_DELETE_COUNT, DELETE_LEN)
            .ok_or_else(too_many("pending_delete_count"))?,
        unresolved: table(header::UNRESOLVED_COUNT, UNRESOLVED_LEN)
            .ok_or_else(too_many("unresolved_count"))?,
    };
    let strings = table(header::STRINGS_LEN, 1).ok_or_else(too_many("strings_len"))?;
    let padding = rest.unwrap_or_default();
    if padding.len() != strings.len().next_multiple_of(STRINGS_ALIGN) - strings.len() {
        return Err(bad("strings_len", "less than the file holds"));
    }
    if !all_zero(padding) {
        return Err(bad("padding", "not zero"));
    }
    Ok((tables, StringsReader::new(strings)))
}

fn decode_counts(bytes: &[u8]) -> Result<FoldCounts, FormatError> {
    let unknown_flags = u64_at(bytes, header::UNKNOWN_FLAGS);
    Ok(FoldCounts {
        unknown_records: u64_at(bytes, header::UNKNOWN_RECORDS),
        unknown_flags: u16::try_from(unknown_flags)
            .map_err(|_| bad("unknown_flags", "more than 16 bits"))?,
        late_records: u64_at(bytes, header::LATE_RECORDS),
        unresolved_dropped: u64_at(bytes, header::UNRESOLVED_DROPPED),
    })
}

const fn bad(field: &'static str, reason: &'static str) -> FormatError {
    FormatError::BadField { field, reason }
}
