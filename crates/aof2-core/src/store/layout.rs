//! Directories and files of a log.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::address::refuse_address;
use crate::error::{AofError, Result};
use crate::format::{
    COLD_LOCATION_NAME, COLD_WRITER_NAME, ColdTailName, FormatError, LastClaim, PINS_NAME,
    STREAM_IDENTITY_LEN_MAX, SegmentFileName, SpareFileName, StreamIdentity, WRITER_CLAIM_LEN_MAX,
    WarmFileName,
};
use crate::io::{EntryKind, File, OpenMode, Storage};

const SEGMENTS_DIR: &str = "segments";

/// Where a log keeps what.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

/// What `segments/` holds, by name.
#[derive(Debug, Default)]
pub struct SegmentListing {
    /// Segment files, ordered by id.
    pub segments: Vec<SegmentFileName>,
    /// Spares of a writer, ordered.
    pub spares: Vec<SpareFileName>,
    /// Other temporary files, left by a crash.
    pub temporaries: Vec<String>,
    /// Anything else.
    pub strangers: Vec<String>,
}

impl Layout {
    /// Layout of the log in this directory.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The log's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Active and sealed segments.
    pub fn segments_dir(&self) -> PathBuf {
        self.root.join(SEGMENTS_DIR)
    }

    /// Sealed segments that retention set aside.
    pub fn archive_dir(&self) -> PathBuf {
        self.root.join("archive")
    }

    /// Originals of repaired files.
    pub fn quarantine_dir(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// Stored indexes of sealed segments.
    pub fn index_dir(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Path of a segment's stored index.
    pub fn index_path(&self, name: &SegmentFileName) -> PathBuf {
        self.index_dir().join(name.index_name())
    }

    /// Compressed segments.
    pub fn warm_dir(&self) -> PathBuf {
        self.root.join("warm")
    }

    /// Path of a compressed segment.
    pub fn warm_path(&self, name: &WarmFileName) -> PathBuf {
        self.warm_dir().join(name.to_string())
    }

    /// Indexes of segments that are in the object store.
    pub fn cold_dir(&self) -> PathBuf {
        self.root.join("cold")
    }

    /// Path of the index of a segment that is in the object store.
    pub fn cold_path(&self, name: &ColdTailName) -> PathBuf {
        self.cold_dir().join(name.to_string())
    }

    /// Says which object store that is.
    pub fn cold_location_file(&self) -> PathBuf {
        self.cold_dir().join(COLD_LOCATION_NAME)
    }

    /// The claim that this directory made last.
    pub fn cold_writer_file(&self) -> PathBuf {
        self.cold_dir().join(COLD_WRITER_NAME)
    }

    /// Who else reads the log's segments.
    pub fn holds_dir(&self) -> PathBuf {
        self.root.join("holds")
    }

    /// Segments that stay in the hot tier.
    pub fn pins_file(&self) -> PathBuf {
        self.root.join(PINS_NAME)
    }

    /// The identity file.
    pub fn stream_file(&self) -> PathBuf {
        self.root.join("stream")
    }

    /// The writer's lock file.
    pub fn lock_file(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// The file through which other processes follow the writer.
    pub fn watermark_file(&self) -> PathBuf {
        self.root.join("watermark")
    }

    /// Path of a segment.
    pub fn segment_path(&self, name: &SegmentFileName) -> PathBuf {
        self.root.join(format!("{SEGMENTS_DIR}/{name}"))
    }

    /// Creates what is missing and makes it durable, up to the first ancestor that
    /// was there before. An address is refused: everything that makes a log comes here
    /// first.
    pub fn ensure(&self, storage: &dyn Storage) -> Result<()> {
        refuse_address(&self.root)?;
        let mut to_sync = vec![self.root.clone()];
        let ancestors = self.root.ancestors().skip(1).filter(|p| !p.as_os_str().is_empty());
        let mut missing = self.root.as_path();
        for ancestor in ancestors {
            if storage.exists(missing).map_err(AofError::io("look for", missing))? {
                break;
            }
            to_sync.push(ancestor.to_owned());
            missing = ancestor;
        }
        let known = |dir: PathBuf| storage.exists(&dir).map_err(AofError::io("look for", &dir));
        if known(self.segments_dir())? && known(self.archive_dir())? && known(self.stream_file())? {
            // The identity is written once the directories are durable.
            return Ok(());
        }
        for dir in [self.segments_dir(), self.archive_dir()] {
            storage.create_dir_all(&dir).map_err(AofError::io("create directory", &dir))?;
        }
        for dir in to_sync {
            storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))?;
        }
        Ok(())
    }

    /// `NotALog` if there is no `segments/` directory.
    pub(crate) fn check_is_log(&self, storage: &dyn Storage) -> Result<()> {
        let dir = self.segments_dir();
        if storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
            return Ok(());
        }
        let reason = match storage.exists(&self.root) {
            Ok(true) => "it has no segments/ directory",
            _ => "the directory does not exist",
        };
        Err(AofError::NotALog { path: self.root.clone(), reason: reason.into() })
    }

    /// Sorts the names in `segments/`. A link or directory with a segment's name,
    /// or a `.seg` file whose name does not parse, is refused.
    pub fn list(&self, storage: &dyn Storage) -> Result<SegmentListing> {
        let (listing, foreign) = self.sort_names(storage)?;
        match foreign.into_iter().next() {
            Some((path, reason)) => Err(AofError::Foreign { path, reason: reason.to_owned() }),
            None => Ok(listing),
        }
    }

    /// The same without refusing any: what would be is returned apart, with the reason.
    pub(crate) fn sort_names(
        &self,
        storage: &dyn Storage,
    ) -> Result<(SegmentListing, Vec<(PathBuf, &'static str)>)> {
        let dir = self.segments_dir();
        let entries = storage.list(&dir).map_err(AofError::io("list directory", &dir))?;
        let (mut listing, mut foreign) = (SegmentListing::default(), Vec::new());
        for entry in entries {
            let is_file = entry.kind == EntryKind::File;
            if let Some(name) = SpareFileName::parse(&entry.name).filter(|_| is_file) {
                listing.spares.push(name);
            } else if entry.name.ends_with(".tmp") && is_file {
                listing.temporaries.push(entry.name);
            } else if let Some(name) = SegmentFileName::parse(&entry.name) {
                match is_file {
                    true => listing.segments.push(name),
                    false => foreign.push((dir.join(&entry.name), "it is not a regular file")),
                }
            } else if entry.name.ends_with(".seg") {
                foreign.push((dir.join(&entry.name), "its name is not a segment's"));
            } else {
                listing.strangers.push(entry.name);
            }
        }
        listing.segments.sort();
        listing.spares.sort_by_key(|n| n.ordinal);
        Ok((listing, foreign))
    }

    /// Reads the identity file; `None` when there is none or it is damaged (a
    /// stream can be opened from its segments alone).
    pub fn load_identity(&self, storage: &dyn Storage) -> Result<Option<StreamIdentity>> {
        let path = self.stream_file();
        if !storage.exists(&path).map_err(AofError::io("look for", &path))? {
            return Ok(None);
        }
        let file = storage.open(&path, OpenMode::Read).map_err(AofError::io("open", &path))?;
        let len = file.len().map_err(AofError::io("read", &path))?;
        let mut bytes = vec![0; len.min(STREAM_IDENTITY_LEN_MAX as u64) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", &path))?;
        match StreamIdentity::decode(&bytes) {
            Ok(identity) => Ok(Some(identity)),
            Err(FormatError::UnsupportedVersion { found }) => Err(AofError::NotALog {
                path: self.root.clone(),
                reason: format!(
                    "its stream file has version {found}, which is newer than this program"
                ),
            }),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "stream identity file is damaged");
                Ok(None)
            }
        }
    }

    /// Writes the identity file: temporary name, sync, rename, sync directory.
    pub fn store_identity(&self, storage: &dyn Storage, identity: &StreamIdentity) -> Result<()> {
        self.replace_file(storage, &self.stream_file(), &identity.encode())
    }

    /// The claim that this directory made last; `None` if it made none, or if that cannot
    /// be read: then it is as if another directory had made the latest one.
    pub(crate) fn load_last_claim(&self, storage: &dyn Storage) -> Result<Option<LastClaim>> {
        let path = self.cold_writer_file();
        if !storage.exists(&path).map_err(AofError::io("look for", &path))? {
            return Ok(None);
        }
        let file = storage.open(&path, OpenMode::Read).map_err(AofError::io("open", &path))?;
        let len = file.len().map_err(AofError::io("read", &path))?;
        let mut bytes = vec![0; len.min(WRITER_CLAIM_LEN_MAX as u64) as usize];
        file.read_exact_at(&mut bytes, 0).map_err(AofError::io("read", &path))?;
        Ok(LastClaim::decode(&bytes).ok())
    }

    /// Remembers a claim, durably.
    pub(crate) fn store_last_claim(&self, storage: &dyn Storage, claim: LastClaim) -> Result<()> {
        self.replace_file(storage, &self.cold_writer_file(), &claim.encode())
    }

    /// Creates a directory of the log durably, if it is not there.
    pub(crate) fn ensure_dir(&self, storage: &dyn Storage, dir: &Path) -> Result<()> {
        if storage.exists(dir).map_err(AofError::io("look for", dir))? {
            return Ok(());
        }
        storage.create_dir_all(dir).map_err(AofError::io("create directory", dir))?;
        storage.sync_dir(&self.root).map_err(AofError::io("sync directory", &self.root))
    }

    /// Atomically puts `bytes` where `path` is. A crash leaves the old file, or
    /// the new one, and perhaps a temporary beside it.
    pub fn replace_file(&self, storage: &dyn Storage, path: &Path, bytes: &[u8]) -> Result<()> {
        let temporary = temporary_of(path);
        let file = create_anew(storage, &temporary)?;
        file.write_all_at(bytes, 0).map_err(AofError::io("write", &temporary))?;
        file.sync().map_err(AofError::io("sync", &temporary))?;
        storage.rename(&temporary, path).map_err(AofError::io("rename", path))?;
        let dir = path.parent().unwrap_or(&self.root);
        storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))
    }
}

/// The name under which a file is written until it is complete.
pub(crate) fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Creates a file, replacing one that a crash left.
pub(crate) fn create_anew(storage: &dyn Storage, path: &Path) -> Result<Arc<dyn File>> {
    if storage.exists(path).map_err(AofError::io("look for", path))? {
        storage.remove(path).map_err(AofError::io("remove", path))?;
    }
    storage.create_new(path).map_err(AofError::io("create", path))
}
