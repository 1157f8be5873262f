//! Operations: what was decided about things that several logs, nodes or buckets share, as
//! bytes. Spec: docs/format.md#operations
//!
//! One record of the operation log is one *batch*: operations that were decided together and
//! hold together or not at all. The offset of the record in that log is the batch's
//! *generation*; an operation's id is the generation and its place in the batch.
//!
//! ```text
//! batch                                    operation
//!  0 u64 magic "AOF2OPER"                   0 u32 magic "AOP2"
//!  8 u16 version = 1                        4 u16 version = 1
//! 10 u16 zero                               6 u16 type
//! 12 u32 operation_count, at least 1        8 u8  phase      9 u8 zero
//! 16 u64 generation                        10 u16 actor_len
//! 24 u64 previous_crc64                    12 u32 index in the batch
//! 32 u32 body_len                          16 u64 generation
//! 36 u32 zero                              24 u64 term, 0 without a cluster
//! 40 u64 crc64 of 0..40 and the body       32 u64 intent generation  } all ones:
//! 48 operations, one behind the other      40 u32 intent index       } no intent
//!                                          44 u32 segment_count
//! segment, 32 bytes                        48 u64 stream_id, 0 for none
//!  0 u64 segment_id                        56 u64 node_id
//!  8 u64 crc64                             64 u64 timestamp_ms
//! 16 u64 bytes                             72 u32 fields_len         76 u32 zero
//! 24 u32 epoch   28 u32 zero               80 u64 crc64 of all other bytes
//!                                          88 segments, actor, fields, zeros to 8 bytes
//! ```
//!
//! `previous_crc64` is the checksum of the batch before, so that a batch follows exactly one
//! history: tables or checkpoints of another one are recognised. The fields of each type are
//! in `body`. There is one encoding of a value, and an unknown type or version is an error of
//! its own: to skip what was decided would be to disagree about it.

mod batch;
mod body;
mod codes;
mod fields;
mod header;
mod parts;
mod value;

#[cfg(test)]
pub(crate) mod arbitrary;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

pub use batch::{BATCH_HEADER_LEN, OperationBatch, operation_space};
pub use body::{OPERATION_TYPES, OperationBody};
pub use codes::{
    ChunkCompression, ChunkResidency, DbKind, DbStatus, JobKind, JobOutcome, Phase, Variant,
};
pub use header::{ACTOR_LEN_MAX, OPERATION_HEADER_LEN, Operation, OperationId};
pub use parts::{
    ChunkFields, ChunkMutation, DeltaFields, ObjectName, Policy, RemoteObject, SegmentRef,
};
pub use value::Value;
