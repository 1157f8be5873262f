//! The bytes on disk: every layout of the log's own files, and nothing else.
//!
//! This module owns the byte layouts of segment files (both versions), of the
//! records in them, of their compressed artifacts, of the watermark file and of the
//! `stream` identity file, together with their names, ids and the one checksum they
//! share. It is pure byte code: it opens no file, knows no clock and depends on no
//! other module, so that every decoder can be tested and fuzzed on plain slices. Bytes
//! from disk are hostile until a checksum says otherwise, and even then every length
//! is checked: a decoder returns an error, it never panics and never claims more
//! bytes than it was given. All integers are little-endian.

mod artifact;
mod bytes;
mod checkpoint;
mod checksum;
mod codec;
mod cold_location;
mod cursor_file;
mod error;
mod hold;
mod ids;
mod lineage;
pub mod manifest;
mod name;
pub mod operation;
mod pins;
mod record;
mod segment;
mod segment_index;
mod segment_v1;
mod segment_v2;
mod slicing;
mod stream;
mod watermark;
mod writer;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

pub use artifact::{
    ARTIFACT_FRAME_COUNT_MAX, ARTIFACT_FRAME_LEN_MAX, ARTIFACT_TAIL_LEN_MAX, ArtifactFrame,
    ArtifactIndex, ArtifactMetadata, ArtifactSummary, COLD_KEY_LEN_MAX, ColdKey, ColdTailName,
    WarmFileName,
};
pub use checkpoint::{
    CHECKPOINT_BLOCK_LEN, CHECKPOINT_END_LEN, CHECKPOINT_HEADER_LEN, CHECKPOINT_RAW_LEN_MAX,
    CheckpointBlock, CheckpointHeader, CheckpointRow,
};
pub use checksum::{Crc64, crc64, fold32};
pub use codec::RecordCodec;
pub use cold_location::{COLD_LOCATION_LEN_MAX, COLD_LOCATION_NAME, ColdLocation};
pub use cursor_file::{CURSOR_FILE_LEN_MAX, CursorFile};
pub use error::{FormatError, RecordFault};
pub use hold::{HOLD_LEN_MAX, Hold, HolderKind};
pub use ids::{RecordId, SegmentId, StreamId};
pub use lineage::{Inheritance, LINEAGE_DEPTH_MAX, LINEAGE_LEN_MAX, Lineage, OwnStart};
pub use name::{ArchiveFileName, SegmentFileName, SpareFileName};
pub use pins::{PINS_COUNT_MAX, PINS_LEN_MAX, PINS_NAME, decode_pins, encode_pins};
pub use record::{DecodedRecord, Gap, RecordFlags, RecordHead, RecordHeaderBytes, RecordMeta};
pub use segment::{
    PAYLOAD_LEN_MAX, RECORD_ALIGN, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENT_FOOTER_LEN,
    SEGMENT_HEADER_LEN, SegmentFooter, SegmentFormat, SegmentHeader, TIMESTAMP_MS_MAX,
};
pub use segment_index::{
    INDEX_SPACING, IndexPoint, IndexedSegment, SEGMENT_INDEX_LEN_MAX, SegmentIndex,
};
pub use segment_v1::{SegmentFooterV1, SegmentHeaderV1};
pub use segment_v2::{
    FOOTER_COMPACTED, FOOTER_PARTIAL, FOOTER_SEALED, SegmentFooterV2, SegmentHeaderV2,
};
pub use stream::{STREAM_IDENTITY_LEN_MAX, STREAM_NAME_LEN_MAX, StreamIdentity, validate_name};
pub use watermark::{
    WATERMARK_APPENDED_COUNT, WATERMARK_APPENDED_POSITION, WATERMARK_BODY, WATERMARK_BODY_CRC,
    WATERMARK_BODY_LEN, WATERMARK_DURABLE_COUNT, WATERMARK_DURABLE_POSITION, WATERMARK_FILE_LEN,
    WATERMARK_HEADER_LEN, WATERMARK_LEN, WATERMARK_SEQUENCE, WATERMARK_STATE, WATERMARK_WAKE,
    WatermarkBody, WatermarkHeader, WatermarkState,
};
pub use writer::{
    COLD_WRITER_NAME, LastClaim, WRITER_CLAIM_LEN_MAX, WRITER_EPOCH_MAX, WriterClaim, WriterFrom,
    WriterKey, first_object_epoch, name_key, writer_epoch,
};
