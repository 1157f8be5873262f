//! What a record says: flags, header fields, gaps.
//!
//! The bytes are the business of [`RecordCodec`](crate::format::RecordCodec).

use super::bytes::{all_zero, u64_at};

/// `payload_len` and `checksum`, in both versions.
pub(super) const FIRST_WORD_LEN: usize = 8;
/// Bytes of the longer of the two record headers.
pub(super) const HEADER_LEN_MAX: usize = 32;
/// The count of lost records in a gap's payload.
pub(super) const LOST_COUNT_LEN: usize = 8;

/// What kind of record this is. Version 1 stores no flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecordFlags(u32);

impl RecordFlags {
    /// An ordinary record.
    pub const NONE: Self = Self(0);
    /// A snapshot of the application's state ends here.
    pub const SNAPSHOT_BOUNDARY: Self = Self(1);
    /// Not the application's data.
    pub const CONTROL: Self = Self(1 << 1);
    /// With [`CONTROL`](Self::CONTROL): stands where records were lost.
    pub const GAP: Self = Self(1 << 2);

    /// The flags with these bits; bits of a later version are kept.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The flags of a gap, both of them.
pub(super) const GAP_FLAGS: RecordFlags = RecordFlags::CONTROL.union(RecordFlags::GAP);

/// What a record's header says beside its length and checksum.
///
/// Version 1 stores only the timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMeta {
    /// The record's ordinal in the stream.
    pub logical_offset: u64,
    /// When it was appended, UTC milliseconds.
    pub timestamp_ms: u64,
    /// What kind of record it is.
    pub flags: RecordFlags,
    /// How many records before this one were not yet durable when it was
    /// appended (saturating).
    pub durable_lag: u32,
}

/// An encoded record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeaderBytes {
    pub(super) bytes: [u8; HEADER_LEN_MAX],
    pub(super) len: usize,
}

impl RecordHeaderBytes {
    /// Payload length and checksum: the word whose store publishes the record.
    /// Store it in little-endian order.
    #[inline]
    pub fn first_word(&self) -> u64 {
        u64_at(&self.bytes, 0)
    }

    /// The header after its first word; written before it.
    #[inline]
    pub fn rest(&self) -> &[u8] {
        &self.bytes[FIRST_WORD_LEN..self.len]
    }

    /// The whole header.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A record's header as found, with the record's length worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Bytes of payload, at least one.
    pub payload_len: u32,
    /// The stored checksum.
    pub checksum: u32,
    /// The record's ordinal in the stream (version 2).
    pub logical_offset: Option<u64>,
    /// When it was appended, UTC milliseconds; zero for a version 1 gap.
    pub timestamp_ms: u64,
    /// What kind of record it is; in version 1 only a gap has any.
    pub flags: RecordFlags,
    /// Records before this one that were not yet durable when it was appended
    /// (version 2).
    pub durable_lag: Option<u32>,
    /// Bytes from this record to the next: header, payload and padding.
    pub record_len: u32,
}

/// A record whose checksum has been verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedRecord<'a> {
    /// Its header.
    pub head: RecordHead,
    /// Its payload.
    pub payload: &'a [u8],
}

impl DecodedRecord<'_> {
    /// The gap that this record stands for, if it is one.
    pub fn gap(&self) -> Option<Gap> {
        if !self.head.flags.contains(GAP_FLAGS) {
            return None;
        }
        let (lost_count, rest) = self.payload.split_first_chunk::<LOST_COUNT_LEN>()?;
        all_zero(rest).then(|| Gap { lost_count: u64::from_le_bytes(*lost_count) })
    }
}

/// What repair leaves where records were lost, so that the records behind stay
/// readable and a reader learns that something is missing.
///
/// In version 2 a record with the flags `CONTROL` and `GAP`, in version 1 one
/// with a `timestamp_ns` of all ones. The payload is the number of lost records
/// as `u64` and then zeros up to the next intact record; the shortest record of
/// either version has room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// How many records were lost here.
    pub lost_count: u64,
}
