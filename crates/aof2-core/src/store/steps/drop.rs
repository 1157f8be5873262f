//! Removing a segment from the log: all its local copies, and a tombstone for its object.
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
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::ArchiveFileName;
use crate::format::manifest::ManifestEvent;
use crate::io::OpenMode;
use crate::manifest::Manifest;
use crate::planted::{self, Bug};
use crate::store::apply::Step;
use crate::store::change::{Applied, Removal};
use crate::store::copy::Copies;
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;
use crate::store::transitions::{evict, evict_warm};

pub(in crate::store) struct DropSegment {
    removal: Removal,
    copies: Copies,
    is_hot: bool,
    key: Option<String>,
    bytes: u64,
}

impl DropSegment {
    pub(in crate::store) fn of(
        store: &Store,
        entry: &SegmentEntry,
        removal: Removal,
    ) -> Result<Box<dyn Step>> {
        let copies = entry.copies();
        if removal == Removal::SetAside && copies.compressed().is_some() {
            return Err(AofError::InvalidConfig {
                field: "action",
                reason: format!(
                    "segment {} is compressed; a log with tiers deletes what retention lets go",
                    entry.meta.segment_id
                ),
            });
        }
        let key = store.cold_key(entry);
        let (is_hot, bytes) = (entry.is_hot(), entry.record_bytes());
        Ok(Box::new(Self { removal, copies, is_hot, key, bytes }))
    }

    /// Removes all local copies.
    fn remove(&self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        let (path, segment_index) = (&entry.path, entry.meta.segment_id.as_u32());
        match self.removal {
            Removal::Delete => {
                if self.is_hot {
                    // An earlier try may have got so far.
                    store.remove_file(path, "remove segment")?;
                }
                self.remove_compressed(store, entry)?;
                store.table().forget_windows(segment_index);
            }
            Removal::SetAside => {
                let renamed = store.storage().rename(path, &set_aside_path(store, entry)?);
                renamed.map_err(AofError::io("set segment aside", path))?;
            }
        }
        store.drop_index(&entry.meta);
        store.table().remove_first(segment_index);
        if self.removal == Removal::SetAside {
            store.sync_names(&store.layout().archive_dir())?;
        }
        if planted::is(Bug::TrimWithoutSync) {
            return Ok(());
        }
        store.sync_names(&store.layout().segments_dir())
    }

    fn remove_compressed(&self, store: &Store, entry: &SegmentEntry) -> Result<()> {
        if self.copies.has_stray {
            // Otherwise a later opening could use it, and take the segment for one that is
            // there, and those behind it for missing.
            store.remove_strays(entry)?;
        }
        if let Some(warm) = &self.copies.warm {
            store.remove_file(warm.source().name(), "remove compressed segment")?;
            store.sync_names(&store.layout().warm_dir())?;
        }
        // Last: as long as it is there, so is the segment.
        if let Some(cold) = &self.copies.cold {
            let path = store.layout().cold_path(&cold.index_name());
            store.remove_file(&path, "remove")?;
            store.sync_names(&store.layout().cold_dir())?;
        }
        Ok(())
    }
}

/// Where the file of a segment goes that is set aside.
fn set_aside_path(store: &Store, entry: &SegmentEntry) -> Result<PathBuf> {
    let path = &entry.path;
    let file = store.storage().open(path, OpenMode::Read);
    let file = file.map_err(AofError::io("open segment", path))?;
    let sealed_at_ns = file.modified_ns().map_err(AofError::io("read segment", path))?;
    let name = ArchiveFileName { segment_id: entry.meta.segment_id, sealed_at_ns };
    Ok(store.layout().archive_dir().join(name.to_string()))
}

impl Step for DropSegment {
    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        entry.note_leaving();
        self.remove(store, entry)
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        let id = entry.meta.segment_id;
        if self.is_hot {
            evict(manifest, id, self.bytes)?;
        }
        if let Some(warm) = &self.copies.warm {
            evict_warm(manifest, id, warm.index().artifact_len())?;
        }
        match &self.key {
            Some(key) => manifest.record(id, 0, ManifestEvent::Tier2DeleteQueued { key }).map(drop),
            None => Ok(()),
        }
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied::bytes(self.bytes)
    }
}
