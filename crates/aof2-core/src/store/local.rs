//! Files of a log's copies: segment files, compressed files, the indexes that are kept of
//! objects. What is done with them here is part of a change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::busy::Slot;
use super::copy::ColdCopy;
use super::entry::SegmentEntry;
use super::kept_index;
use super::listing::list_names;
use super::quarantine::Quarantine;
use super::state::Store;
use super::warm::WarmFiles;
use crate::error::{AofError, Result};
use crate::format::{
    ArtifactIndex, ColdKey, ColdTailName, SEGMENT_FOOTER_LEN, SegmentId, WarmFileName,
};
use crate::io::OpenMode;
use crate::segment::{Artifact, ArtifactOptions, write_artifact};

/// What a stream keeps in its hot tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HotUsage {
    /// Bytes of sealed segments.
    pub(crate) sealed_bytes: u64,
    /// Bytes of segments that are written or wait for their footer.
    pub(crate) active_bytes: u64,
}

impl HotUsage {
    pub(crate) fn total(&self) -> u64 {
        self.sealed_bytes + self.active_bytes
    }
}

impl Store {
    pub(crate) fn hot_usage(&self) -> HotUsage {
        let entries = self.table().snapshot();
        let hot = entries.iter().filter(|e| e.damage.is_none() && e.is_hot());
        let mut usage = HotUsage::default();
        for entry in hot {
            match entry.sealed_info() {
                Some(info) => usage.sealed_bytes += u64::from(info.durable_bytes),
                None => usage.active_bytes += u64::from(entry.meta.segment_bytes),
            }
        }
        usage
    }

    /// Makes the compressed file of a segment from its segment file: written, synced and
    /// verified, and only then named.
    pub(super) fn compress_file(
        &self,
        entry: &Arc<SegmentEntry>,
        options: &ArtifactOptions,
    ) -> Result<Artifact> {
        let segment = match entry.is_hot() {
            true => self.table().open_whole(self.storage(), entry)?,
            false => return Err(AofError::NoSuchSegment(entry.meta.segment_id)),
        };
        let (footer, written_at_ns) = self.read_footer(entry)?;
        // A file that came back from another tier was written later. With the time that its
        // object has, the compressed file is the same again, byte for byte.
        let archived = entry.copies().cold;
        let sealed_at_ns =
            archived.map_or(written_at_ns, |cold| cold.artifact.index().summary.sealed_at_ns);
        let name = WarmFileName {
            segment_id: entry.meta.segment_id,
            base_offset: entry.meta.base_offset,
            sealed_at_ns,
        };
        self.warm_files().make(&name, |out| {
            write_artifact(&segment, &footer, sealed_at_ns, options, out).map(drop)
        })
    }

    /// Reads a compressed file as a whole and compares it with what is known of it.
    pub(crate) fn verify_warm(&self, warm: &Artifact) -> Result<()> {
        self.warm_files().verify(warm, &|file| file, &mut |_| {})
    }

    pub(crate) fn warm_files(&self) -> WarmFiles<'_> {
        WarmFiles { storage: self.storage(), layout: self.layout() }
    }

    /// The footer's bytes, and when they were written.
    fn read_footer(&self, entry: &SegmentEntry) -> Result<([u8; SEGMENT_FOOTER_LEN], u64)> {
        let path = &entry.path;
        let file = self
            .storage()
            .open(path, OpenMode::Read)
            .map_err(AofError::io("open segment", path))?;
        let mut footer = [0; SEGMENT_FOOTER_LEN];
        let at = u64::from(entry.meta.space_end());
        file.read_exact_at(&mut footer, at).map_err(AofError::io("read segment footer", path))?;
        let sealed_at_ns = file.modified_ns().map_err(AofError::io("read segment", path))?;
        Ok((footer, sealed_at_ns))
    }

    /// Whether the bucket that the log was opened with has the object of a segment.
    pub(super) fn is_in_bucket(&self, entry: &SegmentEntry, cold: &ColdCopy) -> Result<bool> {
        match (self.cold().tier(), self.cold_key(entry)) {
            (Some(tier), Some(key)) => Ok(tier.len_of(&key)? == Some(cold.len())),
            _ => Ok(false),
        }
    }

    /// The key of a segment's object, if it has one.
    pub(crate) fn cold_key(&self, entry: &SegmentEntry) -> Option<String> {
        let epoch = entry.copies().cold?.epoch;
        let prefix = &self.manifest_config().upload_prefix;
        let (stream_id, segment_id) = (entry.meta.stream_id, entry.meta.segment_id);
        Some(ColdKey::new(prefix, stream_id, segment_id, epoch).ok()?.to_string())
    }

    pub(super) fn is_there(&self, path: &Path) -> Result<bool> {
        self.storage().exists(path).map_err(AofError::io("look for", path))
    }

    /// Removes a file, if it is there.
    pub(super) fn remove_file(&self, path: &Path, operation: &'static str) -> Result<()> {
        match self.storage().remove(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(AofError::io(operation, path)(e))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.storage().sync_dir(dir).map_err(AofError::io("sync directory", dir))
    }

    /// Moves a file to the quarantine, if it is there. Returns its new name.
    pub(super) fn quarantine(&self, path: &Path) -> Result<Option<PathBuf>> {
        if !self.is_there(path)? {
            return Ok(None);
        }
        let quarantine = Quarantine { storage: self.storage(), layout: self.layout() };
        quarantine.take(path).map(Some)
    }

    /// Compressed files of a segment that its entry does not name: opening did not use
    /// them because they are damaged, or a later one counts.
    pub(crate) fn stray_warm_files(&self, entry: &SegmentEntry) -> Result<Vec<PathBuf>> {
        let known = entry.copies().warm.map(|warm| WarmFileName::of(&warm.index().summary));
        let names = list_names(self.storage(), &self.layout().warm_dir(), WarmFileName::parse)?;
        let of_segment = names.into_iter().filter(|n| n.segment_id == entry.meta.segment_id);
        let others = of_segment.filter(|name| Some(*name) != known);
        Ok(others.map(|name| self.layout().warm_path(&name)).collect())
    }

    /// Removes files of copies that the entry does not name.
    pub(super) fn remove_strays(&self, entry: &SegmentEntry) -> Result<()> {
        for path in self.stray_warm_files(entry)? {
            self.remove_file(&path, "remove compressed segment")?;
            self.sync_names(&self.layout().warm_dir())?;
        }
        let known = entry.copies().cold.map(|cold| cold.index_name());
        for name in kept_index::list(self.storage(), self.layout())? {
            if name.artifact.segment_id == entry.meta.segment_id && Some(name) != known {
                self.remove_file(&self.layout().cold_path(&name), "remove")?;
                self.sync_names(&self.layout().cold_dir())?;
            }
        }
        Ok(())
    }

    /// Keeps the index of an object, durably.
    pub(super) fn keep_index(&self, name: &ColdTailName, index: &ArtifactIndex) -> Result<()> {
        kept_index::store(self.storage(), self.layout(), name, index)
    }

    pub(super) fn remove_kept_index(&self, name: &ColdTailName) -> Result<()> {
        self.remove_file(&self.layout().cold_path(name), "remove")?;
        self.sync_dir(&self.layout().cold_dir())
    }

    /// Keeps the index of a segment's object again, as it is known in memory.
    pub(crate) fn restore_kept_index(&self, segment_id: SegmentId) -> Result<()> {
        let _right = self.busy.begin(Slot::Files(segment_id));
        if let Some(error) = self.refusal() {
            return Err(error);
        }
        let Some(cold) = self.sealed_entry(segment_id)?.copies().cold else { return Ok(()) };
        let keep = || self.keep_index(&cold.index_name(), cold.artifact.index());
        self.while_moving(keep, |_, ()| Ok(()))
    }
}
