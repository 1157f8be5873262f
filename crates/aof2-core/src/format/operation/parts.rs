//! Parts that several operations have: chunks, deltas, objects, segments, policies.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::codes::{ChunkCompression, ChunkResidency, Variant};
use super::fields::{Field, bad, list_value, parts, put_list, take_list};
use super::value::Value;
use crate::format::{FormatError, SegmentId};

/// A segment that an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The segment.
    pub segment_id: SegmentId,
    /// Checksum of what is stored of it: of the object, where there is one.
    pub crc64: u64,
    /// Length of that.
    pub bytes: u64,
    /// Which of its objects: keys are never used again.
    pub epoch: u32,
}

impl Field for SegmentRef {
    fn put(&self, out: &mut Vec<u8>) {
        self.segment_id.as_u64().put(out);
        self.crc64.put(out);
        self.bytes.put(out);
        self.epoch.put(out);
        0u32.put(out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        let segment = Self {
            segment_id: SegmentId::from_u64(u64::take(input)?),
            crc64: u64::take(input)?,
            bytes: u64::take(input)?,
            epoch: u32::take(input)?,
        };
        match u32::take(input)? {
            0 => Ok(segment),
            _ => Err(bad("segment", "reserved bytes are not zero")),
        }
    }

    fn value(&self) -> Value {
        Value::Fields(vec![
            ("segment_id", Value::Number(self.segment_id.as_u64())),
            ("crc64", Value::Hash(self.crc64)),
            ("bytes", Value::Number(self.bytes)),
            ("epoch", Value::Number(u64::from(self.epoch))),
        ])
    }
}

impl Field for Vec<SegmentRef> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        take_list(input)
    }

    fn value(&self) -> Value {
        list_value(self)
    }
}

parts! {
    /// An object by what it holds. The database that made it first stays in the name, so
    /// that forks share it.
    #[derive(Copy, PartialOrd, Ord, Hash)]
    ObjectName {
        /// Database that made it.
        origin_db: u32,
        /// Chunk of that database.
        chunk_id: u32,
        /// Which object of the chunk.
        variant: Variant,
        /// Rewrites have later generations.
        generation: u32,
    }

    /// An object and the namespace that it is in.
    #[derive(Copy)]
    RemoteObject {
        /// Where it is.
        namespace_id: u32,
        /// Its name there.
        name: ObjectName,
    }

    /// A chunk as it is registered.
    ChunkFields {
        /// Number of the chunk, never used again in its database.
        chunk_id: u32,
        /// First page that it holds; 0 for chunks of a write-ahead log.
        first_page: u32,
        /// Pages that it holds; 0 for chunks of a write-ahead log.
        page_count: u32,
        /// Length of its file.
        size_bytes: u64,
        /// Checksum of its file.
        crc64: u64,
        /// How it is stored.
        compression: ChunkCompression,
        /// Where it is.
        residency: ChunkResidency,
        /// First position of the write-ahead log that it covers.
        lsn_start: u64,
        /// Position behind the last.
        lsn_end: u64,
        /// The object, if it is in a bucket.
        remote: Option<RemoteObject>,
    }

    /// A delta over a chunk as it is registered.
    DeltaFields {
        /// The chunk that it patches.
        base_chunk_id: u32,
        /// Number of the delta for its object's name.
        delta_id: u16,
        /// Pages that it holds, in the encoding of the page store.
        dirty_pages: Vec<u8>,
        /// Length of its file.
        size_bytes: u64,
        /// Checksum of its file.
        crc64: u64,
        /// How it is stored.
        compression: ChunkCompression,
        /// Where it is.
        residency: ChunkResidency,
        /// The object, if it is in a bucket.
        remote: Option<RemoteObject>,
    }

    /// What may go of a database, and when.
    #[derive(Copy, Default)]
    Policy {
        /// Records older than this.
        max_age_ms: Option<u64>,
        /// The oldest while there is more than this.
        max_bytes: Option<u64>,
        /// The oldest snapshots while there are more than this.
        snapshots_max: Option<u32>,
    }
}

/// `{origin:08x}/{chunk:08x}/{variant}:{generation:08x}`, the key below a namespace.
impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin_db, chunk_id, variant, generation } = self;
        write!(f, "{origin_db:08x}/{chunk_id:08x}/{variant}:{generation:08x}")
    }
}

impl Field for Vec<ObjectName> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        take_list(input)
    }

    fn value(&self) -> Value {
        list_value(self)
    }
}

impl SegmentRef {
    /// The same without its type.
    pub fn to_value(&self) -> Value {
        self.value()
    }
}

/// What a checkpoint does to a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChunkMutation {
    /// A chunk is written anew, under a number of its own.
    Full {
        /// The new chunk.
        chunk: ChunkFields,
        /// The one that it replaces, with its deltas.
        supersedes: Option<u32>,
    },
    /// A delta is laid over a chunk.
    Delta(DeltaFields),
}

impl Field for ChunkMutation {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Full { chunk, supersedes } => {
                1u8.put(out);
                chunk.put(out);
                supersedes.put(out);
            }
            Self::Delta(delta) => {
                2u8.put(out);
                delta.put(out);
            }
        }
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        match u8::take(input)? {
            1 => Ok(Self::Full { chunk: Field::take(input)?, supersedes: Field::take(input)? }),
            2 => Field::take(input).map(Self::Delta),
            _ => Err(bad("mutation", "neither a chunk nor a delta")),
        }
    }

    fn value(&self) -> Value {
        Value::Fields(match self {
            Self::Full { chunk, supersedes } => {
                vec![("chunk", chunk.value()), ("supersedes", supersedes.value())]
            }
            Self::Delta(delta) => vec![("delta", delta.value())],
        })
    }
}

impl Field for Vec<ChunkMutation> {
    fn put(&self, out: &mut Vec<u8>) {
        put_list(self, out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, FormatError> {
        take_list(input)
    }

    fn value(&self) -> Value {
        list_value(self)
    }
}
