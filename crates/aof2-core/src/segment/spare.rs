//! Segments prepared ahead of need.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::SpareFileName;
use crate::io::{FileIdentity, MapWriter, Storage};

/// Bytes of the first segment of an opened log that are faulted in at once. The others are
/// once half of these are written.
pub(crate) const FIRST_PAGES_LEN: u32 = 64 << 10;

/// Of a first segment up to this size only the first pages are faulted in at once: that of a
/// log with the sizes that are the default. A thousand idle logs must not cost a gigabyte.
const SMALL_LEN: u32 = 1 << 20;

/// An allocated, mapped and faulted-in file that waits to become a segment. It is not kept
/// open: the map is all that appends and flushes need.
///
/// It has a temporary name. A crash leaves the file behind; recovery removes it,
/// or adopts it when a killed process had already written records into it.
#[derive(Debug)]
pub struct Spare {
    pub(super) path: PathBuf,
    /// Which file it is, so that it is recognised when it is opened again.
    pub(super) file: FileIdentity,
    pub(super) writer: MapWriter,
    segment_bytes: u32,
    faulted_in_len: u32,
}

/// How much of a spare reaches the disk before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpareSync {
    /// Nothing, and of a small segment only the first pages are faulted in: the first segment
    /// of an opened log should not wait for the disk, and cost little if nobody writes to it.
    Nothing,
    /// Length and block map, so that the first flush does not pay for them.
    Length,
    /// Every block is written once. Costs writing the segment twice, and spares every
    /// small flush the conversion of blocks that were only reserved.
    Blocks,
}

impl Spare {
    /// Allocates and faults in a file of `segment_bytes`. Slow, meant for the
    /// background: a full disk shows here and not as a crash of an append.
    pub fn prepare(
        storage: &dyn Storage,
        dir: &Path,
        ordinal: u64,
        segment_bytes: u32,
        synced: SpareSync,
    ) -> Result<Self> {
        let path = dir.join(SpareFileName { ordinal }.to_string());
        let made = Self::fill(storage, &path, segment_bytes, synced);
        if made.is_err() {
            // Half a spare is worth nothing and may be what filled the disk.
            let _ = storage.remove(&path);
        }
        made
    }

    fn fill(
        storage: &dyn Storage,
        path: &Path,
        segment_bytes: u32,
        synced: SpareSync,
    ) -> Result<Self> {
        let file = storage.create_new(path).map_err(AofError::io("create segment", path))?;
        file.allocate(u64::from(segment_bytes)).map_err(AofError::io("allocate segment", path))?;
        let sync = || file.sync().map_err(AofError::io("sync new segment", path));
        if synced == SpareSync::Length {
            sync()?;
        }
        let map =
            file.map(segment_bytes as usize, true).map_err(AofError::io("map segment", path))?;
        let faulted_in_len = match synced {
            SpareSync::Nothing if segment_bytes <= SMALL_LEN => FIRST_PAGES_LEN.min(segment_bytes),
            // Whoever asks for large segments means to fill them: an append that has to fault
            // in its own pages is several times slower.
            SpareSync::Nothing => segment_bytes,
            SpareSync::Length | SpareSync::Blocks => segment_bytes,
        };
        let fault_in = || {
            map.fault_in(0, faulted_in_len as usize).map_err(AofError::io("fault in segment", path))
        };
        fault_in()?;
        if synced == SpareSync::Blocks {
            // Faulting in made every page dirty with zeros; writing them back makes the
            // kernel watch for the next store, so fault in once more.
            sync()?;
            fault_in()?;
        }
        let file = file.identity().map_err(AofError::io("read segment", path))?;
        let Some(writer) = Arc::new(map).writer() else {
            return Err(AofError::io("map segment", path)(
                std::io::ErrorKind::PermissionDenied.into(),
            ));
        };
        Ok(Self { path: path.to_owned(), file, writer, segment_bytes, faulted_in_len })
    }

    /// Size of the file.
    pub fn segment_bytes(&self) -> u32 {
        self.segment_bytes
    }

    /// Whether all of its pages are in memory.
    pub fn is_faulted_in(&self) -> bool {
        self.faulted_in_len == self.segment_bytes
    }

    /// Temporary path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the disk space back.
    pub fn discard(self, storage: &dyn Storage) -> Result<()> {
        storage.remove(&self.path).map_err(AofError::io("remove spare segment", &self.path))
    }
}
