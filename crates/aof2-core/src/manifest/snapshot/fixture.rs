//! A manifest on a simulated machine, with its whole history kept beside it.

use std::sync::Arc;

use super::{SnapshotInfo, load_newest_snapshot, prune_snapshots, write_snapshot};
use crate::error::Result;
use crate::format::StreamId;
use crate::format::manifest::CHUNK_BYTES_MIN;
use crate::format::manifest::arbitrary::OwnedRecord;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::index::ManifestIndex;
use crate::manifest::index::history::fold_all;
use crate::manifest::layout::ManifestLayout;
use crate::manifest::reader::ManifestReader;
use crate::manifest::replay::{ReplayReport, replay};
use crate::manifest::writer::ManifestWriter;

pub(in crate::manifest) fn layout() -> ManifestLayout {
    ManifestLayout::new("/log", StreamId::from_u64(1))
}

pub(in crate::manifest) fn reader(sim: &SimStorage) -> ManifestReader {
    ManifestReader::of_layout(Arc::new(sim.clone()), layout())
}

pub(in crate::manifest) fn replay_on(sim: &SimStorage) -> Result<(ManifestIndex, ReplayReport)> {
    replay(&reader(sim), sim.clock())
}

/// The index of the first records of a history.
pub(in crate::manifest) fn index_of(history: &[OwnedRecord]) -> ManifestIndex {
    let mut index = ManifestIndex::new();
    fold_all(&mut index, history, 0);
    index
}

/// A writer that takes snapshots.
pub(in crate::manifest) struct Fixture {
    pub(in crate::manifest) sim: SimStorage,
    pub(in crate::manifest) writer: ManifestWriter,
    pub(in crate::manifest) index: ManifestIndex,
}

impl Fixture {
    pub(in crate::manifest) fn new() -> Self {
        let sim = SimStorage::new();
        layout().ensure(&sim).unwrap();
        Self::open(sim)
    }

    /// Goes on where a manifest ends.
    pub(in crate::manifest) fn open(sim: SimStorage) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(sim.clone());
        let writer = ManifestWriter::open(storage, layout(), CHUNK_BYTES_MIN).unwrap();
        let (index, _) = replay_on(&sim).unwrap();
        Self { sim, writer, index }
    }

    pub(in crate::manifest) fn append(&mut self, records: &[OwnedRecord]) {
        for owned in records {
            let ordinal = self.writer.append(&owned.record()).unwrap();
            self.index.fold(ordinal, &owned.record());
        }
    }

    pub(in crate::manifest) fn commit(&mut self) {
        self.writer.commit().unwrap();
    }

    /// Seals the chunk, so that the next record starts another.
    pub(in crate::manifest) fn rotate(&mut self) {
        self.writer.rotate().unwrap();
    }

    /// Writes a snapshot of what is committed; the writer holds nothing else.
    pub(in crate::manifest) fn snapshot(&self, snapshot_id: u64) -> Result<()> {
        assert_eq!(self.writer.committed(), self.index.next_record());
        let image = self.index.to_image(snapshot_id, self.writer.end());
        write_snapshot(&self.sim, &layout(), &image)
    }

    pub(in crate::manifest) fn prune(&self, keep: usize) -> Result<Vec<u64>> {
        Ok(prune_snapshots(&self.sim, &layout(), keep)?.removed)
    }
}

/// The newest snapshot that validates.
pub(in crate::manifest) fn newest(sim: &SimStorage) -> Option<SnapshotInfo> {
    load_newest_snapshot(sim, &layout()).unwrap().0.map(|image| SnapshotInfo::of(&image))
}
