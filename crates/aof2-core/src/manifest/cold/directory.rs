//! A directory as a chunk store: another disk, a network file system, a test.
//!
//! An object is a file at its key's path. Its metadata stands in `<name>.meta` beside
//! it, written first, so that an object that is there has them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::uploader::{ChunkMeta, ChunkUploader, StoredChunk, UploadError};
use crate::format::crc64;
use crate::format::manifest::ReasonCode;
use crate::io::{EntryKind, OpenMode, Storage};
use crate::manifest::chunks::CHUNK_LEN_MAX;

const META_SUFFIX: &str = ".meta";
const META_LEN_MAX: u64 = 4096;
/// How deep listing goes: prefix, `manifest`, stream, and space for a nested prefix.
const DEPTH_MAX: usize = 16;

/// Stores chunks as files below a directory.
///
/// ```
/// use std::sync::Arc;
/// use aof2_core::io::OsStorage;
/// use aof2_core::manifest::{ChunkMeta, ChunkUploader, DirectoryUploader};
///
/// # let dir = tempfile::tempdir()?;
/// let store = DirectoryUploader::new(Arc::new(OsStorage), dir.path());
/// let meta = ChunkMeta { chunk_crc64: 1, base_record: 0, record_count: 1, snapshot_id: 0 };
/// store.upload(0, "backup/0.mlog", b"bytes", &meta)?;
/// assert_eq!(store.head("backup/0.mlog")?.map(|found| found.meta), Some(meta));
/// assert!(store.upload(0, "../outside", b"bytes", &meta).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DirectoryUploader {
    storage: Arc<dyn Storage>,
    root: PathBuf,
}

impl DirectoryUploader {
    /// A store in this directory, which is created when it is needed.
    pub fn new(storage: Arc<dyn Storage>, root: impl Into<PathBuf>) -> Self {
        Self { storage, root: root.into() }
    }

    /// The file of a key. A key that would leave the directory is refused.
    fn path(&self, key: &str) -> Result<PathBuf, UploadError> {
        let is_safe = |part: &str| {
            !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0'])
        };
        if key.split('/').all(is_safe) {
            return Ok(self.root.join(key));
        }
        Err(UploadError {
            reason: ReasonCode::AUTH,
            detail: format!("{key:?} is not a key for a directory"),
        })
    }

    /// Temporary name, sync, rename, sync directory: a crash leaves the old file, the
    /// new one, or a temporary beside it.
    fn put(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        if self.storage.exists(&temporary)? {
            self.storage.remove(&temporary)?;
        }
        let file = self.storage.create_new(&temporary)?;
        file.write_all_at(bytes, 0)?;
        file.sync()?;
        self.storage.rename(&temporary, path)?;
        self.storage.sync_dir(path.parent().unwrap_or(&self.root))
    }

    /// Creates the directories of a file and makes their names durable.
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        let parent = path.parent().unwrap_or(&self.root);
        self.storage.create_dir_all(parent)?;
        for dir in parent.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
            self.storage.sync_dir(dir)?;
            if !dir.starts_with(&self.root) {
                break;
            }
        }
        Ok(())
    }

    fn get(&self, path: &Path, len_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = match self.storage.open(path, OpenMode::Read) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let len = file.len()?;
        if len > len_max {
            let detail = format!("{len} bytes where at most {len_max} belong");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, detail));
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(bytes))
    }

    fn walk(&self, dir: &Path, key: &str, depth: usize, keys: &mut Vec<String>) -> io::Result<()> {
        let entries = match self.storage.list(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            listed => listed?,
        };
        for entry in entries {
            let slash = if key.is_empty() { "" } else { "/" };
            let child = format!("{key}{slash}{}", entry.name);
            match entry.kind {
                EntryKind::Directory if depth < DEPTH_MAX => {
                    self.walk(&dir.join(&entry.name), &child, depth + 1, keys)?;
                }
                EntryKind::File
                    if !entry.name.ends_with(META_SUFFIX) && !entry.name.ends_with(".tmp") =>
                {
                    keys.push(child);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl ChunkUploader for DirectoryUploader {
    fn upload(
        &self,
        _chunk_index: u64,
        key: &str,
        bytes: &[u8],
        meta: &ChunkMeta,
    ) -> Result<String, UploadError> {
        let path = self.path(key)?;
        let failed = |error: io::Error| failure(key, &error);
        self.make_dirs(&path).map_err(failed)?;
        self.put(&meta_path(&path), meta_text(meta).as_bytes()).map_err(failed)?;
        self.put(&path, bytes).map_err(failed)?;
        Ok(etag(bytes))
    }

    fn head(&self, key: &str) -> Result<Option<StoredChunk>, UploadError> {
        let path = self.path(key)?;
        let failed = |error: io::Error| failure(key, &error);
        let Some(bytes) = self.get(&path, CHUNK_LEN_MAX).map_err(failed)? else {
            return Ok(None);
        };
        let text = self.get(&meta_path(&path), META_LEN_MAX).map_err(failed)?;
        let meta = text.as_deref().and_then(parse_meta).ok_or_else(|| UploadError {
            reason: ReasonCode::TRANSIENT,
            detail: format!("{key}: its metadata cannot be read"),
        })?;
        Ok(Some(StoredChunk { len: bytes.len() as u64, etag: etag(&bytes), meta }))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, UploadError> {
        let mut keys = Vec::new();
        self.walk(&self.root, "", 0, &mut keys).map_err(|error| failure(prefix, &error))?;
        keys.retain(|key| key.starts_with(prefix));
        keys.sort_unstable();
        Ok(keys)
    }

    fn fetch(&self, key: &str, len_max: u64) -> Result<Option<Vec<u8>>, UploadError> {
        let path = self.path(key)?;
        self.get(&path, len_max).map_err(|error| failure(key, &error))
    }
}

fn etag(bytes: &[u8]) -> String {
    format!("{:016x}", crc64(bytes))
}

fn meta_path(path: &Path) -> PathBuf {
    let mut meta = path.as_os_str().to_owned();
    meta.push(META_SUFFIX);
    PathBuf::from(meta)
}

fn meta_text(meta: &ChunkMeta) -> String {
    format!(
        "chunk_crc64={:016x}\nbase_record={}\nrecord_count={}\nsnapshot_id={}\n",
        meta.chunk_crc64, meta.base_record, meta.record_count, meta.snapshot_id
    )
}

fn parse_meta(text: &[u8]) -> Option<ChunkMeta> {
    let text = std::str::from_utf8(text).ok()?;
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    Some(ChunkMeta {
        chunk_crc64: u64::from_str_radix(field("chunk_crc64")?, 16).ok()?,
        base_record: field("base_record")?.parse().ok()?,
        record_count: field("record_count")?.parse().ok()?,
        snapshot_id: field("snapshot_id")?.parse().ok()?,
    })
}

fn failure(key: &str, error: &io::Error) -> UploadError {
    let reason = match error.kind() {
        io::ErrorKind::PermissionDenied => ReasonCode::AUTH,
        io::ErrorKind::NotFound | io::ErrorKind::StorageFull => ReasonCode::UNAVAILABLE,
        _ => ReasonCode::TRANSIENT,
    };
    UploadError { reason, detail: format!("{key}: {error}") }
}
