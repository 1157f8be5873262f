//! Directory and files of one stream's manifest.

use std::path::{Path, PathBuf};

use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::format::manifest::{ChunkFileName, SnapshotFileName, manifest_dir};
use crate::io::{EntryKind, LockError, LockGuard, Storage};

use super::committed::NUMBER_MAX;

/// Where a manifest keeps what.
#[derive(Clone, Debug)]
pub struct ManifestLayout {
    dir: PathBuf,
    stream_id: StreamId,
}

/// What the directory holds, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestListing {
    /// Indexes of the chunks that have their name, in order.
    pub chunks: Vec<u64>,
    /// Ids of the snapshots, in order.
    pub snapshots: Vec<u64>,
    /// Half of a chunk or of a snapshot, left by a crash.
    pub temporaries: Vec<String>,
}

impl ManifestListing {
    /// The chunks that follow each other up to the newest. What stands before a hole is
    /// history that retention had removed and that a power cut brought back, or damage:
    /// a snapshot behind the hole tells.
    pub fn run(&self) -> &[u64] {
        let holes = self.chunks.windows(2).rposition(|pair| pair[0] + 1 != pair[1]);
        &self.chunks[holes.map_or(0, |at| at + 1)..]
    }

    /// The chunks before the last hole.
    pub fn strays(&self) -> &[u64] {
        &self.chunks[..self.chunks.len() - self.run().len()]
    }
}

impl ManifestLayout {
    /// Layout of the manifest of a stream whose log is in this directory.
    pub fn new(root_dir: impl AsRef<Path>, stream_id: StreamId) -> Self {
        Self { dir: root_dir.as_ref().join(manifest_dir(stream_id)), stream_id }
    }

    /// The manifest's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The stream.
    pub fn stream_id(&self) -> StreamId {
        self.stream_id
    }

    /// A chunk's file.
    pub fn chunk_path(&self, chunk_index: u64) -> PathBuf {
        self.dir.join(ChunkFileName { chunk_index }.format())
    }

    /// A chunk's file before its first commit.
    pub(super) fn temporary_path(&self, chunk_index: u64) -> PathBuf {
        self.dir.join(ChunkFileName { chunk_index }.format_temporary())
    }

    /// A snapshot's file.
    pub fn snapshot_path(&self, snapshot_id: u64) -> PathBuf {
        self.dir.join(SnapshotFileName { snapshot_id }.format())
    }

    /// Takes the right to change the manifest, without waiting. The directory exists.
    pub(in crate::manifest) fn lock(&self, storage: &dyn Storage) -> Result<Box<dyn LockGuard>> {
        let path = self.dir.join("lock");
        storage.lock(&path).map_err(|error| match error {
            LockError::Held { pid } => AofError::Locked { path: self.dir.clone(), pid },
            LockError::Io(error) => AofError::io("lock", &path)(error),
        })
    }

    /// Creates what is missing and makes it durable, up to the first ancestor that was
    /// there before. A directory that holds a chunk was made durable before the chunk
    /// got its name.
    pub(in crate::manifest) fn ensure(&self, storage: &dyn Storage) -> Result<()> {
        let exists = |path: &Path| storage.exists(path).map_err(AofError::io("look for", path));
        if exists(&self.dir)? && !self.list(storage)?.chunks.is_empty() {
            return Ok(());
        }
        // The two levels that are ours are synced also when they exist: a process that
        // died may have left them in the cache only.
        let mut to_sync = Vec::new();
        for (depth, ancestor) in self.dir.ancestors().skip(1).enumerate() {
            if ancestor.as_os_str().is_empty() {
                break;
            }
            to_sync.push(ancestor);
            if depth >= 1 && exists(ancestor)? {
                break;
            }
        }
        storage.create_dir_all(&self.dir).map_err(AofError::io("create directory", &self.dir))?;
        for dir in to_sync {
            storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))?;
        }
        Ok(())
    }

    /// Sorts the names in the directory. A link or directory in a chunk's place, or a
    /// `.mlog` file whose name does not parse, is refused; names that are none of ours
    /// are left alone.
    pub fn list(&self, storage: &dyn Storage) -> Result<ManifestListing> {
        let entries = storage.list(&self.dir).map_err(AofError::io("list directory", &self.dir))?;
        let mut listing = ManifestListing::default();
        for entry in entries {
            let is_file = entry.kind == EntryKind::File;
            if let Some(name) = ChunkFileName::parse(&entry.name) {
                if !is_file {
                    return Err(self.foreign(&entry.name, "it is not a regular file"));
                }
                if name.chunk_index > NUMBER_MAX {
                    return Err(self.foreign(&entry.name, "no manifest has so many chunks"));
                }
                listing.chunks.push(name.chunk_index);
            } else if entry.name.ends_with(".mlog") {
                return Err(self.foreign(&entry.name, "its name is not a chunk's"));
            } else if let Some(name) = SnapshotFileName::parse(&entry.name).filter(|_| is_file) {
                listing.snapshots.push(name.snapshot_id);
            } else if is_file && is_temporary(&entry.name) {
                listing.temporaries.push(entry.name);
            }
        }
        listing.chunks.sort_unstable();
        listing.snapshots.sort_unstable();
        listing.temporaries.sort_unstable();
        Ok(listing)
    }

    fn foreign(&self, name: &str, reason: &str) -> AofError {
        AofError::Foreign { path: self.dir.join(name), reason: reason.to_owned() }
    }
}

fn is_temporary(name: &str) -> bool {
    ChunkFileName::parse_temporary(name).is_some()
        || SnapshotFileName::parse_temporary(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_ends_at_the_newest_chunk_and_strays_stand_before_a_hole() {
        let listing =
            |chunks: &[u64]| ManifestListing { chunks: chunks.into(), ..Default::default() };
        for (chunks, run) in [
            (&[][..], &[][..]),
            (&[4], &[4]),
            (&[0, 1, 2], &[0, 1, 2]),
            (&[0, 2, 3, 7, 8], &[7, 8]),
            (&[1, 5], &[5]),
        ] {
            let listing = listing(chunks);
            assert_eq!(listing.run(), run);
            assert_eq!([listing.strays(), listing.run()].concat(), chunks);
        }
    }
}
