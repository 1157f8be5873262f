//! A manifest on a simulated machine, with its whole history kept beside it.

use std::sync::Arc;

use super::{
    ReplayReport, SnapshotInfo, load_newest_snapshot, prune_snapshots, replay, write_snapshot,
};
use crate::error::Result;
use crate::format::StreamId;
use crate::format::manifest::CHUNK_BYTES_MIN;
use crate::format::manifest::arbitrary::OwnedRecord;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::manifest::chunks::{ManifestLayout, ManifestReader, ManifestWriter};
use crate::manifest::index::ManifestIndex;
use crate::manifest::index::history::fold_all;

pub(super) fn layout() -> ManifestLayout {
    ManifestLayout::new("/log", StreamId::from_u64(1))
}

pub(super) fn reader(sim: &SimStorage) -> ManifestReader {
    ManifestReader::of_layout(Arc::new(sim.clone()), layout())
}

pub(super) fn replay_on(sim: &SimStorage) -> Result<(ManifestIndex, ReplayReport)> {
    replay(&reader(sim), sim.clock())
}

/// The index of the first records of a history.
pub(super) fn index_of(history: &[OwnedRecord]) -> ManifestIndex {
    let mut index = ManifestIndex::new();
    fold_all(&mut index, history, 0);
    index
}

/// A writer that takes snapshots.
pub(super) struct Fixture {
    pub(super) sim: SimStorage,
    pub(super) writer: ManifestWriter,
    pub(super) index: ManifestIndex,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let sim = SimStorage::new();
        layout().ensure(&sim).unwrap();
        Self::open(sim)
    }

    /// Goes on where a manifest ends.
    pub(super) fn open(sim: SimStorage) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(sim.clone());
        let writer = ManifestWriter::open(storage, layout(), CHUNK_BYTES_MIN).unwrap();
        let (index, _) = replay_on(&sim).unwrap();
        Self { sim, writer, index }
    }

    pub(super) fn append(&mut self, records: &[OwnedRecord]) {
        for owned in records {
            let ordinal = self.writer.append(&owned.record()).unwrap();
            self.index.fold(ordinal, &owned.record());
        }
    }

    pub(super) fn commit(&mut self) {
        self.writer.commit().unwrap();
    }

    /// Seals the chunk, so that the next record starts another.
    pub(super) fn rotate(&mut self) {
        self.writer.rotate().unwrap();
    }

    /// Writes a snapshot of what is committed; the writer holds nothing else.
    pub(super) fn snapshot(&self, snapshot_id: u64) -> Result<()> {
        assert_eq!(self.writer.committed(), self.index.next_record());
        let image = self.index.to_image(snapshot_id, self.writer.end());
        write_snapshot(&self.sim, &layout(), &image)
    }

    pub(super) fn prune(&self, keep: usize) -> Result<Vec<u64>> {
        Ok(prune_snapshots(&self.sim, &layout(), keep)?.removed)
    }
}

/// The newest snapshot that validates.
pub(super) fn newest(sim: &SimStorage) -> Option<SnapshotInfo> {
    load_newest_snapshot(sim, &layout()).unwrap().0.map(|image| SnapshotInfo::of(&image))
}
