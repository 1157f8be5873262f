//! Names of manifest files and keys of uploaded chunks.
//!
//! ```text
//! manifest/{stream_id:020}/                      the directory, under the log's root
//!   {chunk_index:020}.mlog                       a chunk
//!   {chunk_index:020}.mlog.tmp                   a chunk before its first commit
//!   snapshot_{snapshot_id:020}.bin               a snapshot
//!   snapshot_{snapshot_id:020}.bin.tmp           half of one, left by a crash
//! {prefix}/manifest/{stream_id:016x}/{chunk_index:020}.mlog     a chunk in the cold tier
//! ```
//!
//! As with segments, parsing is exact: a name that would not be written this way
//! is somebody else's file.

use std::fmt;
use std::path::PathBuf;

use crate::format::StreamId;
use crate::format::name::number;

const CHUNK_SUFFIX: &str = ".mlog";
const SNAPSHOT_PREFIX: &str = "snapshot_";
const SNAPSHOT_SUFFIX: &str = ".bin";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// The directory of all manifests, and the part of a key that says the same.
const MANIFEST: &str = "manifest";
/// `manifest/`, 16 digits of stream, `/`, 20 digits of chunk, `.mlog`.
const KEY_TAIL_LEN: usize = MANIFEST.len() + 1 + 16 + 1 + 20 + CHUNK_SUFFIX.len();

const _: () = assert!(KEY_TAIL_LEN == 51);

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

/// The key of a chunk in the cold tier. A prefix may be empty, and one slash at its
/// end makes no difference.
pub fn manifest_key(prefix: &str, stream_id: StreamId, chunk_index: u64) -> String {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let slash = if prefix.is_empty() { "" } else { "/" };
    let chunk = ChunkFileName { chunk_index };
    format!("{prefix}{slash}{MANIFEST}/{stream_id}/{chunk}")
}

/// The stream and the chunk index of a key that [`manifest_key`] makes, whatever its
/// prefix; `None` for every other key. This is what tells an upload of a manifest
/// chunk from one of segment 0.
pub fn parse_manifest_key(key: &str) -> Option<(StreamId, u64)> {
    if !key.ends_with(CHUNK_SUFFIX) {
        return None;
    }
    let (prefix, tail) = key.split_at_checked(key.len().checked_sub(KEY_TAIL_LEN)?)?;
    if !prefix.is_empty() && (prefix == "/" || !prefix.ends_with('/')) {
        return None;
    }
    let mut parts = tail.split('/');
    let (MANIFEST, stream, chunk, None) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next())
    else {
        return None;
    };
    let is_canonical =
        stream.len() == 16 && stream.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let stream_id = is_canonical.then(|| u64::from_str_radix(stream, 16).ok()).flatten()?;
    Some((StreamId::from_u64(stream_id), ChunkFileName::parse(chunk)?.chunk_index))
}
