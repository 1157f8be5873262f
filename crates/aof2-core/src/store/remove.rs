//! Removing a segment from the log: all its local copies, and a note that its object is to
//! be deleted.
//!
//! Each removal is durable before the next segment is removed, so that a crash never leaves
//! a hole. What it leaves otherwise:
//!
//! ```text
//! segment file removed           the segment is read from its other copies; retention
//!                                removes it again
//! compressed file removed        the same, from the object store
//! kept index in cold/ removed    the segment is gone; its object is nobody's, and opening
//!                                brings it back unless the manifest lists it for deletion
//! removal recorded               done here; the object is deleted later
//! ```

use std::path::PathBuf;

use super::store::Store;
use super::table::SegmentEntry;
use crate::error::{AofError, Result};
use crate::format::{ArchiveFileName, ColdKey};
use crate::io::OpenMode;
use crate::planted::{self, Bug};

/// What becomes of the file of a segment that leaves the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It is deleted.
    Delete,
    /// It is moved to `archive/`.
    SetAside,
}

impl Store {
    /// Removes the oldest segment of the log.
    pub(crate) fn remove_segment(&self, entry: &SegmentEntry, removal: Removal) -> Result<()> {
        let _moving = self.moves.begin(entry.meta.segment_id);
        self.while_evicting(entry, || self.remove_files(entry, removal))
    }

    fn remove_files(&self, entry: &SegmentEntry, removal: Removal) -> Result<()> {
        let path = &entry.path;
        match removal {
            Removal::Delete => {
                if entry.is_hot() {
                    self.storage().remove(path).map_err(AofError::io("remove segment", path))?;
                }
                self.remove_compressed(entry)?;
            }
            Removal::SetAside if !entry.away_copies().is_empty() => {
                return Err(AofError::InvalidConfig {
                    field: "action",
                    reason: format!(
                        "segment {} is compressed; a log with tiers deletes what retention lets go",
                        entry.meta.segment_id
                    ),
                });
            }
            Removal::SetAside => {
                let target = self.set_aside_path(entry)?;
                self.storage()
                    .rename(path, &target)
                    .map_err(AofError::io("archive segment", path))?;
            }
        }
        self.drop_index(&entry.meta);
        self.table().remove_first(entry.meta.segment_id.as_u32());
        if removal == Removal::SetAside {
            self.sync_names(&self.layout().archive_dir())?;
        }
        if planted::is(Bug::TrimWithoutSync) {
            return Ok(());
        }
        self.sync_names(&self.layout().segments_dir())
    }

    fn remove_compressed(&self, entry: &SegmentEntry) -> Result<()> {
        let copies = entry.away_copies();
        if let Some(warm) = &copies.warm {
            let path = warm.source().name();
            self.storage().remove(path).map_err(AofError::io("remove compressed segment", path))?;
            self.sync_names(&self.layout().warm_dir())?;
        }
        // Last: as long as it is there, so is the segment.
        if let Some(cold) = &copies.cold {
            let path = self.layout().cold_path(&copies.cold_name(cold));
            self.storage().remove(&path).map_err(AofError::io("remove", &path))?;
            self.sync_names(&self.layout().cold_dir())?;
        }
        self.table().forget_windows(entry.meta.segment_id.as_u32());
        Ok(())
    }

    /// The key of a segment's object, if it has one.
    pub(crate) fn cold_key(&self, entry: &SegmentEntry) -> Option<String> {
        let copies = entry.away_copies();
        copies.cold.as_ref()?;
        let prefix = &self.manifest_config().upload_prefix;
        let (stream_id, segment_id) = (entry.meta.stream_id, entry.meta.segment_id);
        Some(ColdKey::new(prefix, stream_id, segment_id, copies.cold_epoch).ok()?.to_string())
    }

    fn set_aside_path(&self, entry: &SegmentEntry) -> Result<PathBuf> {
        let path = &entry.path;
        let file = self
            .storage()
            .open(path, OpenMode::Read)
            .map_err(AofError::io("open segment", path))?;
        let sealed_at_ns = file.modified_ns().map_err(AofError::io("read segment", path))?;
        let name = ArchiveFileName { segment_id: entry.meta.segment_id, sealed_at_ns };
        Ok(self.layout().archive_dir().join(name.to_string()))
    }
}
