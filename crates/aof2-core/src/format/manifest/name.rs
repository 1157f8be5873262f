//! Names of manifest files and keys of uploaded chunks.
//!
//! ```text
//! manifest/{stream_id:020}/                      the directory, under the log's root
//!   {chunk_index:020}.mlog                       a chunk
//!   {chunk_index:020}.mlog.tmp                   a chunk before its first commit
//!   snapshot_{snapshot_id:020}.bin               a snapshot
//!   snapshot_{snapshot_id:020}.bin.tmp           half of one, left by a crash
//! {prefix}/manifest/{stream_id:016x}/{lineage:08x}/{chunk_index:020}.mlog
//!                                                a chunk in the cold tier
//! {prefix}/manifest/{stream_id:016x}/{chunk_index:020}.mlog
//!                                                the same of lineage 0: before there were any
//! ```
//!
//! As with segments, parsing is exact: a name that would not be written this way
//! is somebody else's file.

use std::fmt;
use std::path::PathBuf;

use crate::format::StreamId;
use crate::format::name::{hexadecimal, number};

const CHUNK_SUFFIX: &str = ".mlog";
const SNAPSHOT_PREFIX: &str = "snapshot_";
const SNAPSHOT_SUFFIX: &str = ".bin";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// The directory of all manifests, and the part of a key that says the same.
const MANIFEST: &str = "manifest";

/// `{chunk_index}.mlog`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkFileName {
    /// The chunk.
    pub chunk_index: u64,
}

impl ChunkFileName {
    /// The file name.
    pub fn format(&self) -> String {
        self.to_string()
    }

    /// The name before the first commit: `{chunk_index}.mlog.tmp`.
    pub fn format_temporary(&self) -> String {
        format!("{self}{TEMPORARY_SUFFIX}")
    }

    /// The parts of `name`, or `None` when it is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(Self { chunk_index: number(name.strip_suffix(CHUNK_SUFFIX)?)? })
    }

    /// The parts of a name before the first commit.
    pub fn parse_temporary(name: &str) -> Option<Self> {
        Self::parse(name.strip_suffix(TEMPORARY_SUFFIX)?)
    }
}

impl fmt::Display for ChunkFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}{CHUNK_SUFFIX}", self.chunk_index)
    }
}

/// `snapshot_{snapshot_id}.bin`
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotFileName {
    /// The snapshot.
    pub snapshot_id: u64,
}

impl SnapshotFileName {
    /// The file name.
    pub fn format(&self) -> String {
        self.to_string()
    }

    /// The name while it is being written: `snapshot_{snapshot_id}.bin.tmp`.
    pub fn format_temporary(&self) -> String {
        format!("{self}{TEMPORARY_SUFFIX}")
    }

    /// The parts of `name`, or `None` when it is not exactly such a name.
    pub fn parse(name: &str) -> Option<Self> {
        let snapshot_id = name.strip_prefix(SNAPSHOT_PREFIX)?.strip_suffix(SNAPSHOT_SUFFIX)?;
        Some(Self { snapshot_id: number(snapshot_id)? })
    }

    /// The parts of a name that is being written.
    pub fn parse_temporary(name: &str) -> Option<Self> {
        Self::parse(name.strip_suffix(TEMPORARY_SUFFIX)?)
    }
}

impl fmt::Display for SnapshotFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SNAPSHOT_PREFIX}{:020}{SNAPSHOT_SUFFIX}", self.snapshot_id)
    }
}

/// The directory of a stream's manifest, relative to the log's root.
pub fn manifest_dir(stream_id: StreamId) -> PathBuf {
    PathBuf::from(MANIFEST).join(format!("{:020}", stream_id.as_u64()))
}

/// A chunk in the cold tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredChunkName {
    /// The stream.
    pub stream_id: StreamId,
    /// The directory whose manifest it is: two directories that continue one log upload
    /// chunks of the same number. Later ones have larger numbers; 0 for what was uploaded
    /// before there were lineages.
    pub lineage: u32,
    /// The chunk.
    pub chunk_index: u64,
}

impl StoredChunkName {
    /// What the keys of a stream's chunks start with.
    pub fn stream_prefix(prefix: &str, stream_id: StreamId) -> String {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let slash = if prefix.is_empty() { "" } else { "/" };
        format!("{prefix}{slash}{MANIFEST}/{stream_id}/")
    }

    /// The key. A prefix may be empty, and one slash at its end makes no difference.
    pub fn key(&self, prefix: &str) -> String {
        let start = Self::stream_prefix(prefix, self.stream_id);
        let chunk = ChunkFileName { chunk_index: self.chunk_index };
        match self.lineage {
            0 => format!("{start}{chunk}"),
            lineage => format!("{start}{lineage:08x}/{chunk}"),
        }
    }

    /// The parts of a key, whatever its prefix; `None` for every other key. This is what
    /// tells an upload of a manifest chunk from one of segment 0.
    pub fn parse(key: &str) -> Option<Self> {
        let (rest, chunk) = key.rsplit_once('/')?;
        let chunk_index = ChunkFileName::parse(chunk)?.chunk_index;
        let (rest, last) = rest.rsplit_once('/')?;
        let (rest, stream, lineage) = match hexadecimal(last, 8) {
            Some(0) => return None,
            Some(lineage) => {
                let (rest, stream) = rest.rsplit_once('/')?;
                (rest, stream, lineage as u32)
            }
            None => (rest, last, 0),
        };
        let prefix = rest.strip_suffix(MANIFEST)?;
        if !prefix.is_empty() && (prefix == "/" || !prefix.ends_with('/')) {
            return None;
        }
        let stream_id = StreamId::from_u64(hexadecimal(stream, 16)?);
        Some(Self { stream_id, lineage, chunk_index })
    }
}
