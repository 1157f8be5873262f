//! Moving a damaged file to the quarantine. Whoever asks for it has verified that another
//! copy is good; making the copy again is another change.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::manifest::Manifest;
use crate::segment::Artifact;
use crate::store::apply::Step;
use crate::store::change::{Applied, Suspect};
use crate::store::entry::SegmentEntry;
use crate::store::state::Store;
use crate::store::transitions::{evict, evict_warm};

enum File {
    Hot,
    Warm(Arc<Artifact>),
    /// A file that the table does not name.
    Stray,
}

pub(in crate::store) struct SetAside {
    file: File,
    path: PathBuf,
    bytes: u64,
    moved_to: Option<PathBuf>,
}

impl SetAside {
    /// `None` if the file is not there, or not what it was when it was checked.
    pub(in crate::store) fn of(
        store: &Store,
        entry: &Arc<SegmentEntry>,
        suspect: &Suspect,
    ) -> Result<Option<Box<dyn Step>>> {
        let path = &entry.path;
        let (file, path, bytes) = match suspect {
            Suspect::Hot if entry.is_hot() => (File::Hot, path.clone(), entry.record_bytes()),
            Suspect::Warm(checked) => {
                let warm = entry.copies().warm;
                let Some(warm) = warm.filter(|warm| Arc::ptr_eq(warm, checked)) else {
                    return Ok(None);
                };
                let path = warm.source().name().to_owned();
                let bytes = warm.index().artifact_len();
                (File::Warm(warm), path, bytes)
            }
            Suspect::StrayHot if !entry.is_hot() && store.is_there(path)? => {
                (File::Stray, path.clone(), 0)
            }
            Suspect::StrayWarm(stray) if store.stray_warm_files(entry)?.contains(stray) => {
                (File::Stray, stray.clone(), 0)
            }
            Suspect::Hot | Suspect::StrayHot | Suspect::StrayWarm(_) => return Ok(None),
        };
        Ok(Some(Box::new(Self { file, path, bytes, moved_to: None })))
    }
}

impl Step for SetAside {
    fn switch(&mut self, store: &Store, entry: &Arc<SegmentEntry>) -> Result<()> {
        match &self.file {
            File::Hot if !entry.leave_damaged() => {
                return Err(AofError::LastCopy(entry.meta.segment_id));
            }
            File::Hot | File::Stray => {}
            File::Warm(_) => {
                entry.set_copies(|copies| copies.warm = None);
                store.table().forget_windows(entry.meta.segment_id.as_u32());
            }
        }
        let moved = store.quarantine(&self.path);
        if moved.is_err() && store.is_there(&self.path).unwrap_or(false) {
            match &self.file {
                File::Hot => entry.enter_hot(),
                File::Warm(warm) => entry.set_copies(|copies| copies.warm = Some(Arc::clone(warm))),
                File::Stray => {}
            }
        }
        self.moved_to = moved?;
        if matches!(self.file, File::Hot) {
            store.drop_index(&entry.meta);
        }
        Ok(())
    }

    fn record(&self, manifest: &Manifest, entry: &SegmentEntry) -> Result<()> {
        match &self.file {
            File::Hot => evict(manifest, entry.meta.segment_id, self.bytes),
            File::Warm(_) => evict_warm(manifest, entry.meta.segment_id, self.bytes),
            File::Stray => Ok(()),
        }
    }

    fn applied(self: Box<Self>) -> Applied {
        Applied { moved_to: self.moved_to, ..Applied::bytes(self.bytes) }
    }
}
