//! The sparse indexes of sealed segments, kept in `index/` so that a lookup in a log
//! that was just opened need not walk a segment from its start.
//!
//! They are shortcuts: written after the footer, never synced, trusted only if they
//! validate and name the content the footer names. A crash leaves a segment without
//! one, or one that does not validate; both cost a walk and nothing else. So no
//! failure here is an error of the log.

use std::io;

use super::entry::SegmentEntry;
use super::info::SealedInfo;
use super::layout::Layout;
use super::state::Store;
use crate::format::{
    FormatError, IndexPoint, IndexedSegment, SEGMENT_INDEX_LEN_MAX, SegmentFileName, SegmentIndex,
};
use crate::io::{OpenMode, Storage};
use crate::segment::{Segment, SegmentMeta};

fn identity(meta: &SegmentMeta, info: &SealedInfo) -> IndexedSegment {
    IndexedSegment {
        stream_id: meta.stream_id,
        segment_id: meta.segment_id,
        durable_bytes: u64::from(info.durable_bytes),
        segment_crc64: info.segment_crc64,
    }
}

/// Gives a mapped segment the points that were stored for it, if there are any.
pub(crate) fn load(storage: &dyn Storage, entry: &SegmentEntry, segment: &Segment) {
    let Some(info) = entry.sealed_info() else { return };
    if !segment.index().wants_stored() {
        return;
    }
    if let Some(points) = points(storage, entry, info) {
        segment.index().adopt(points);
    }
}

/// The points that were stored for a sealed segment, if there are any.
pub(super) fn points(
    storage: &dyn Storage,
    entry: &SegmentEntry,
    info: &SealedInfo,
) -> Option<Vec<IndexPoint>> {
    let layout = Layout::new(entry.path.parent().and_then(|segments| segments.parent())?);
    match read(storage, &layout, &entry.meta.file_name()) {
        Ok(index) if index.of == identity(&entry.meta, info) => return Some(index.points),
        Ok(_) => {
            tracing::debug!(segment = %entry.meta.segment_id, "stored index is of other content")
        }
        Err(error) => tracing::debug!(segment = %entry.meta.segment_id, %error, "no stored index"),
    }
    None
}

fn read(
    storage: &dyn Storage,
    layout: &Layout,
    name: &SegmentFileName,
) -> io::Result<SegmentIndex> {
    let invalid = |e: FormatError| io::Error::new(io::ErrorKind::InvalidData, e);
    let file = storage.open(&layout.index_path(name), OpenMode::Read)?;
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    if len > SEGMENT_INDEX_LEN_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0)?;
    SegmentIndex::decode(&bytes).map_err(invalid)
}

impl Store {
    /// Stores the points of a segment that was just sealed.
    pub(crate) fn store_index(&self, segment: &Segment, info: &SealedInfo) {
        let points = segment.index().points();
        if points.is_empty() {
            return;
        }
        let index = SegmentIndex { of: identity(segment.meta(), info), points };
        let path = self.layout().index_path(&segment.meta().file_name());
        let write = || {
            self.storage().create_dir_all(&self.layout().index_dir())?;
            if self.storage().exists(&path)? {
                self.storage().remove(&path)?;
            }
            self.storage().create_new(&path)?.write_all_at(&index.encode(), 0)
        };
        if let Err(error) = write() {
            tracing::warn!(path = %path.display(), %error, "index of a segment was not stored");
            // Half of one would only be in the way.
            let _ = self.storage().remove(&path);
        }
    }

    /// Removes the stored index of a segment that is gone.
    pub(crate) fn drop_index(&self, meta: &SegmentMeta) {
        let _ = self.storage().remove(&self.layout().index_path(&meta.file_name()));
    }

    /// Background: removes indexes of segments that a crash, or another tool, removed
    /// without them.
    pub(crate) fn drop_stray_indexes(&self) {
        let Some(first) = self.table().first() else { return };
        let dir = self.layout().index_dir();
        for entry in self.storage().list(&dir).unwrap_or_default() {
            let name = SegmentFileName::parse_index(&entry.name);
            if name.is_some_and(|name| name.segment_id < first.meta.segment_id) {
                let _ = self.storage().remove(&dir.join(&entry.name));
            }
        }
    }
}
