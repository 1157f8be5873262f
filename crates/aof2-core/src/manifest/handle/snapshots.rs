//! Taking snapshots: commit, write the index down, mark the place, let old ones go.
//!
//! What a crash leaves: nothing, a temporary that opening removes, or a whole snapshot,
//! with or without its marker. A snapshot without a marker is as good as any: the marker
//! tells readers of the log, replay asks the directory.

use super::metrics::{count, set};
use super::{Files, Manifest, NO_SEGMENT};
use crate::error::Result;
use crate::format::manifest::{ManifestEvent, ManifestRecord};
use crate::manifest::chunks::ManifestPosition;
use crate::manifest::snapshot::{next_snapshot_id, prune_snapshots, write_snapshot};
use crate::planted;
use crate::planted::ManifestBug;

/// How long after a failed snapshot another one is tried.
const SNAPSHOT_RETRY_MS: u64 = 5_000;

impl Manifest {
    /// Writes the index down, so that replay starts here, and gives the snapshot's id.
    /// Everything recorded so far is committed first: a snapshot never speaks of records
    /// that could still be lost. If it fails, the manifest is as good as before.
    pub fn snapshot(&self) -> Result<u64> {
        let mut files = self.files.lock();
        self.state.lock().check()?;
        let taken = self.snapshot_files(&mut files);
        if taken.is_err() {
            count(&self.metrics.snapshot_failures, 1);
            files.snapshot_not_before_ms = self.now_ms() + SNAPSHOT_RETRY_MS;
        }
        taken
    }

    fn snapshot_files(&self, files: &mut Files) -> Result<u64> {
        let snapshot_id = next_snapshot_id(&*self.storage, &self.layout)?;
        let mut image = {
            let mut state = self.state.lock();
            files.backlog.take(&mut state.staged);
            state.staged_since_ms = None;
            state.backlog_len = files.backlog.len();
            // The position is known once the batch is in its chunks.
            state.index.to_image(snapshot_id, ManifestPosition::start_of(0))
        };
        let is_early = planted::has(ManifestBug::SnapshotBeforeCommit);
        if !is_early {
            self.write_out(files)?;
        }
        let end = files.writer.end();
        (image.chunk_index, image.chunk_offset) = (end.chunk_index, end.chunk_offset);
        write_snapshot(&*self.storage, &self.layout, &image)?;
        if is_early {
            self.write_out(files)?;
        }
        files.newest_snapshot = Some(end);
        count(&self.metrics.snapshots, 1);
        set(&self.metrics.snapshot_at_ms, self.now_ms());
        self.mark(snapshot_id, end)?;
        self.commit_files(files)?;
        self.prune(files);
        Ok(snapshot_id)
    }

    /// Records where the snapshot stands. `files` is held, so this cannot wait for space
    /// in the batch; a marker more does not matter to the bound.
    fn mark(&self, snapshot_id: u64, position: ManifestPosition) -> Result<()> {
        let marker = ManifestRecord {
            flags: 0,
            segment_id: NO_SEGMENT,
            logical_offset: 0,
            timestamp_ms: self.now_ms(),
            event: ManifestEvent::SnapshotMarker {
                chunk_index: position.chunk_index,
                chunk_offset: position.chunk_offset,
                snapshot_id,
            },
        };
        let mut state = self.state.lock();
        state.check()?;
        self.stage(&mut state, &marker).map(drop)
    }

    /// Removes snapshots that are too many. If that fails they are there a while longer,
    /// and so are their chunks.
    fn prune(&self, files: &mut Files) {
        match prune_snapshots(&*self.storage, &self.layout, self.config.snapshots_kept) {
            Ok(pruned) => {
                files.floor = pruned.kept.iter().map(|info| info.position.chunk_index).min();
            }
            Err(error) => tracing::warn!(%error, "old manifest snapshots were not removed"),
        }
    }
}
