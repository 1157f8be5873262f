//! What is uploaded: bytes in memory, or a range of a file that is read when its
//! turn comes, so that a large object never lies in memory as a whole.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::format::Crc64;
use crate::io::{File, OpenMode, Storage};

/// Bytes of a file that are held at once while its checksum is computed.
const CHUNK_LEN: usize = 1 << 20;

/// The contents of an object to be. Cloning copies no bytes.
#[derive(Clone)]
pub enum ObjectBody {
    /// All of it.
    Bytes(Bytes),
    /// A range of an open file, which must not change until the upload is over.
    File {
        /// The file.
        file: Arc<dyn File>,
        /// Its name, for messages.
        path: PathBuf,
        /// The bytes of it.
        range: Range<u64>,
    },
}

impl ObjectBody {
    /// A whole file.
    pub fn file(storage: &dyn Storage, path: &Path) -> io::Result<Self> {
        let file = storage.open(path, OpenMode::Read)?;
        let len = file.len()?;
        Ok(Self::File { file, path: path.to_owned(), range: 0..len })
    }

    /// How many bytes it is.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { range, .. } => range.end - range.start,
        }
    }

    /// Whether it is no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of it, cut to its end.
    #[must_use]
    pub fn slice(&self, part: Range<u64>) -> Self {
        let end = part.end.min(self.len());
        let start = part.start.min(end);
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(start as usize..end as usize)),
            Self::File { file, path, range } => Self::File {
                file: Arc::clone(file),
                path: path.clone(),
                range: range.start + start..range.start + end,
            },
        }
    }

    /// The bytes; blocks on the disk.
    pub fn read(&self) -> io::Result<Bytes> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.clone()),
            Self::File { file, range, .. } => {
                let mut buf = vec![0; usize::try_from(self.len()).map_err(io::Error::other)?];
                file.read_exact_at(&mut buf, range.start)?;
                Ok(buf.into())
            }
        }
    }

    /// The checksum, in bounded memory; blocks on the disk.
    pub fn crc64(&self) -> io::Result<u64> {
        let mut crc = Crc64::new();
        let mut done = 0;
        while done < self.len() {
            let chunk = self.slice(done..done + CHUNK_LEN as u64);
            crc.update(&chunk.read()?);
            done += chunk.len();
        }
        Ok(crc.finish())
    }
}

impl From<Bytes> for ObjectBody {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl fmt::Debug for ObjectBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::File { path, range, .. } => write!(f, "{range:?} of {}", path.display()),
        }
    }
}
