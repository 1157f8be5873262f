//! Reading a manifest, here or in another process, while it is written.
//!
//! A chunk gets its name with its first commit, and the next one only after it was
//! sealed. Whoever lists first and reads then finds every chunk but the newest sealed.
//! Bytes are in the file before the header that speaks of them, so what a reader finds
//! validates at any moment (see `committed`). It may see a commit whose last sync is
//! still under way.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::cursor::ManifestCursor;
use super::layout::{ManifestLayout, ManifestListing};
use super::position::ManifestPosition;
use crate::error::{AofError, Result};
use crate::format::StreamId;
use crate::io::Storage;

pub use super::committed::{Chunk, PlacedRecord, Records};

/// Reads the manifest of one stream; takes no lock and writes nothing.
///
/// ```
/// use std::sync::Arc;
/// use aof2_core::{SegmentId, StreamId};
/// use aof2_core::io::{OsStorage, Storage, SystemClock};
/// use aof2_core::manifest::{Manifest, ManifestConfig, ManifestReader};
/// use aof2_core::format::manifest::ManifestEvent;
///
/// # let dir = tempfile::tempdir()?;
/// let (storage, id) = (Arc::new(OsStorage) as Arc<dyn Storage>, StreamId::legacy_of_name("events"));
/// let config = ManifestConfig::local();
/// let manifest =
///     Manifest::open(Arc::clone(&storage), Arc::new(SystemClock), dir.path(), id, config)?;
/// let opened = ManifestEvent::SegmentOpened { base_offset: 0, epoch: 0 };
/// manifest.record(SegmentId::from_u64(7), 0, opened)?;
/// manifest.commit()?;
///
/// let mut cursor = ManifestReader::new(storage, dir.path(), id).cursor()?;
/// let placed = cursor.next_record()?.expect("one record");
/// assert_eq!((placed.ordinal, placed.record.event), (0, opened));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManifestReader {
    storage: Arc<dyn Storage>,
    layout: ManifestLayout,
}

impl ManifestReader {
    /// A reader of the manifest of a stream whose log is in this directory.
    pub fn new(storage: Arc<dyn Storage>, root_dir: impl AsRef<Path>, stream_id: StreamId) -> Self {
        Self { storage, layout: ManifestLayout::new(root_dir, stream_id) }
    }

    /// A reader of a manifest whose layout is known.
    pub fn of_layout(storage: Arc<dyn Storage>, layout: ManifestLayout) -> Self {
        Self { storage, layout }
    }

    /// Where the manifest keeps what.
    pub fn layout(&self) -> &ManifestLayout {
        &self.layout
    }

    /// The storage it reads.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The files there are at this moment; none where there is no manifest yet.
    pub fn list(&self) -> Result<ManifestListing> {
        match self.layout.list(&*self.storage) {
            Err(AofError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(ManifestListing::default())
            }
            listed => listed,
        }
    }

    /// Reads and verifies one chunk.
    pub fn chunk(&self, chunk_index: u64) -> Result<Chunk> {
        let has_successor = self.list()?.chunks.iter().any(|&index| index > chunk_index);
        Chunk::load(&*self.storage, &self.layout, chunk_index, has_successor, Vec::new())
    }

    /// The chunks from the oldest of the unbroken run to the newest, one at a time.
    pub fn chunks(&self) -> Result<impl Iterator<Item = Result<Chunk>> + '_> {
        let run = self.list()?.run().to_vec();
        let newest = run.last().copied();
        Ok(run.into_iter().map(move |index| {
            let has_successor = Some(index) != newest;
            Chunk::load(&*self.storage, &self.layout, index, has_successor, Vec::new())
        }))
    }

    /// All records there are, from the oldest chunk of the unbroken run on.
    pub fn cursor(&self) -> Result<ManifestCursor> {
        let oldest = self.list()?.run().first().copied().unwrap_or(0);
        Ok(self.cursor_at(ManifestPosition::start_of(oldest), None))
    }

    /// The records from one position up to another, or as far as there are any.
    pub fn cursor_at(
        &self,
        start: ManifestPosition,
        end: Option<ManifestPosition>,
    ) -> ManifestCursor {
        ManifestCursor::new(self.clone(), start, end)
    }

    /// Where the next record will stand, and its ordinal; `None` where no chunk is.
    pub fn end(&self) -> Result<Option<(ManifestPosition, u64)>> {
        let Some(newest) = self.list()?.chunks.last().copied() else { return Ok(None) };
        let chunk = Chunk::load(&*self.storage, &self.layout, newest, false, Vec::new())?;
        let mut ordinal = chunk.header().base_record;
        for placed in chunk.records() {
            ordinal = placed?.ordinal + 1;
        }
        Ok(Some((chunk.end(), ordinal)))
    }
}
