//! Where an artifact's bytes are.

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{AofError, Result};
use crate::io::{File, OpenMode, Storage};

/// The bytes of an artifact, wherever they are.
#[allow(clippy::len_without_is_empty)]
pub trait ArtifactSource: Send + Sync + Debug {
    /// Length of the artifact.
    fn len(&self) -> u64;
    /// Exactly `len` bytes from `offset` on.
    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes>;
    /// File or object, for messages.
    fn name(&self) -> &Path;
    /// Says that these bytes will be read next, so that a distant source can fetch them
    /// meanwhile. Nothing follows from it.
    fn announce(&self, range: Range<u64>) {
        let _ = range;
    }
    /// Says that nothing that was announced will be read.
    fn forget(&self) {}
}

/// An artifact in a local file.
#[derive(Debug)]
pub struct FileSource {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
}

impl FileSource {
    /// Opens the file, which must not change any more.
    pub fn open(storage: &dyn Storage, path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let file = storage
            .open(&path, OpenMode::Read)
            .map_err(AofError::io("open compressed segment", &path))?;
        let len = file.len().map_err(AofError::io("read compressed segment", &path))?;
        Ok(Self { file, path, len })
    }
}

impl ArtifactSource for FileSource {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let failed = || AofError::io("read compressed segment", &self.path);
        // Before allocating: whoever asks may have been lied to.
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(failed()(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; len];
        self.file.read_exact_at(&mut bytes, offset).map_err(failed())?;
        Ok(bytes.into())
    }

    fn name(&self) -> &Path {
        &self.path
    }
}
