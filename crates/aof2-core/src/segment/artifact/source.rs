//! Where an artifact's bytes are.

use std::fmt::Debug;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::kept_file::{Doing, KeptFile};
use crate::error::{AofError, Result};
use crate::io::Storage;

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
    /// The CRC-64 of all bytes that whoever stores them keeps beside them, if it does.
    fn stored_crc64(&self) -> Result<Option<u64>> {
        Ok(None)
    }
    /// Whether it takes a descriptor this moment.
    fn is_open(&self) -> bool {
        false
    }
    /// Whether what stands under its name now was found to be something else.
    fn is_replaced(&self) -> bool {
        false
    }
}

/// An artifact in a local file. The file is open while it is read, and afterwards as long
/// as the process has descriptors to spare ([`OpenLimit`](crate::io::OpenLimit)).
#[derive(Debug)]
pub struct FileSource {
    file: Arc<KeptFile>,
}

impl FileSource {
    /// Opens the file, which must not change any more.
    pub fn open(storage: &dyn Storage, path: impl Into<PathBuf>) -> Result<Self> {
        let doing = Doing { open: "open compressed segment", read: "read compressed segment" };
        Ok(Self { file: KeptFile::open(storage, path.into(), doing)? })
    }

    /// A segment file that is read as it is.
    pub(crate) fn open_segment(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let doing = Doing { open: "open segment", read: "read segment" };
        Ok(Self { file: KeptFile::open(storage, path.to_owned(), doing)? })
    }
}

impl ArtifactSource for FileSource {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, offset: u64, len: usize) -> Result<Bytes> {
        let failed = || AofError::io(self.file.doing().read, self.name());
        // Before allocating: whoever asks may have been lied to.
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len()) {
            return Err(failed()(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| failed()(std::io::ErrorKind::OutOfMemory.into()))?;
        bytes.resize(len, 0);
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    }

    fn name(&self) -> &Path {
        self.file.path()
    }

    fn is_open(&self) -> bool {
        self.file.is_open()
    }

    fn is_replaced(&self) -> bool {
        self.file.is_replaced()
    }
}
