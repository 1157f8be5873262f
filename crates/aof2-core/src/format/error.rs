//! What can be wrong with bytes that claim to be one of our layouts.
//!
//! These errors name the fault, not the place: whoever read the bytes knows the
//! file and the offset and adds them.

use thiserror::Error;

/// A block (header, footer, identity, watermark) that does not decode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Fewer bytes than the layout has.
    #[error("too short: {needed} bytes needed, {available} available")]
    TooShort {
        /// Bytes the layout takes.
        needed: usize,
        /// Bytes that were there.
        available: usize,
    },
    /// Not this kind of file or block.
    #[error("bad magic {found:#018x}")]
    BadMagic {
        /// What stood where the magic belongs.
        found: u64,
    },
    /// The right kind of file, written by a version this code does not know.
    #[error("unsupported version {found}")]
    UnsupportedVersion {
        /// The version found.
        found: u32,
    },
    /// The block's own checksum does not match: damaged or half-written.
    #[error("checksum mismatch: computed {expected:#018x}, stored {found:#018x}")]
    BadChecksum {
        /// The checksum computed over the bytes.
        expected: u64,
        /// The checksum stored beside them.
        found: u64,
    },
    /// An operation of a type that this code does not know. To skip it would be to disagree
    /// with whoever wrote it.
    #[error("unknown type of operation {found}: written by a newer version of aof2")]
    UnknownOperation {
        /// The type found.
        found: u16,
    },
    /// The checksum matches but a field has a value no writer gives it.
    #[error("bad field {field}: {reason}")]
    BadField {
        /// The field, as the layout's table names it.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Bytes that are neither a record nor the end of the records.
///
/// Whether this is a torn tail or damage is not decided here: recovery looks at
/// what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// The record would run past the end of the record space.
    #[error("record of {needed} bytes in a space of {available}")]
    Truncated {
        /// Bytes the record claims, padding included.
        needed: u64,
        /// Bytes left.
        available: u64,
    },
    /// A record without payload; no writer makes one.
    #[error("record with an empty payload")]
    EmptyPayload,
    /// The record's checksum does not match its bytes.
    #[error("record checksum mismatch: computed {expected:#010x}, stored {found:#010x}")]
    Checksum {
        /// The checksum computed over the record.
        expected: u32,
        /// The checksum stored in its header.
        found: u32,
    },
    /// The padding after the payload is not zero.
    #[error("record padding is not zero")]
    Padding,
}
