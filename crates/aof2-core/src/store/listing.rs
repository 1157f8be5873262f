//! The names in the directories of a log, sorted by segment: the first step of opening,
//! of refreshing a reader, of claiming, and of verifying. Nothing is opened here and
//! nothing refused.

use std::path::{Path, PathBuf};

use super::entry::SegmentEntry;
use super::layout::Layout;
use crate::error::{AofError, Result};
use crate::format::{
    COLD_LOCATION_NAME, COLD_WRITER_NAME, ColdTailName, SegmentFileName, SegmentId, SpareFileName,
    WarmFileName,
};
use crate::io::{DirEntry, EntryKind, Storage};

/// The names of the copies of one segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentNames {
    pub(crate) segment_id: SegmentId,
    /// Segment files. A second one is left by a crash in the middle of replacing a segment
    /// that was never written to.
    pub(crate) hot: Vec<SegmentFileName>,
    /// Compressed files, the latest, which counts, last.
    pub(crate) warm: Vec<WarmFileName>,
    /// Kept indexes of objects, the latest, which counts, last.
    pub(crate) cold: Vec<ColdTailName>,
}

impl SegmentNames {
    fn of_hot(name: &SegmentFileName) -> Self {
        Self { hot: vec![*name], ..Self::of(name.segment_id) }
    }

    fn of_warm(name: &WarmFileName) -> Self {
        Self { warm: vec![*name], ..Self::of(name.segment_id) }
    }

    fn of_cold(name: &ColdTailName) -> Self {
        Self { cold: vec![*name], ..Self::of(name.artifact.segment_id) }
    }

    fn of(segment_id: SegmentId) -> Self {
        Self { segment_id, hot: Vec::new(), warm: Vec::new(), cold: Vec::new() }
    }

    /// The files that hold it, or say where it is, the nearest first.
    pub(crate) fn paths(&self, layout: &Layout) -> Vec<PathBuf> {
        let hot = self.hot.iter().map(|name| layout.segment_path(name));
        let warm = self.warm.iter().map(|name| layout.warm_path(name));
        let cold = self.cold.iter().map(|name| layout.cold_path(name));
        hot.chain(warm).chain(cold).collect()
    }

    /// The file of the nearest compressed copy, for messages.
    pub(crate) fn compressed_path(&self, layout: &Layout) -> PathBuf {
        let warm = self.warm.last().map(|name| layout.warm_path(name));
        warm.or_else(|| self.cold.last().map(|name| layout.cold_path(name))).unwrap_or_default()
    }

    /// Whether a compressed copy is named.
    pub(crate) fn is_compressed(&self) -> bool {
        !self.warm.is_empty() || !self.cold.is_empty()
    }

    /// Whether there are files that a later one of the same copy replaced.
    pub(crate) fn has_earlier(&self) -> bool {
        self.warm.len() > 1 || self.cold.len() > 1
    }

    /// Whether an entry of the segment table is this, and final.
    pub(crate) fn is_as_known(&self, layout: &Layout, entry: &SegmentEntry) -> bool {
        let copies = entry.copies();
        let is_same_file = match self.hot.as_slice() {
            [] => !copies.is_hot,
            [name] => copies.is_hot && layout.segment_path(name) == entry.path,
            _ => false,
        };
        // A file that was replaced has its name and is another.
        let warm = copies.warm.as_ref().filter(|copy| !copy.source().is_replaced());
        let warm = warm.map(|copy| WarmFileName::of(&copy.index().summary));
        let cold = copies.cold.as_ref().map(|cold| cold.index_name());
        entry.meta.segment_id == self.segment_id
            && entry.sealed_info().is_some()
            && is_same_file
            && self.warm.last() == warm.as_ref()
            && self.cold.last() == cold.as_ref()
    }
}

/// What the directories hold, by name.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// By segment, oldest first.
    pub(crate) segments: Vec<SegmentNames>,
    /// Spares of a writer, in order.
    pub(crate) spares: Vec<SpareFileName>,
    /// Other temporary files, left by a crash.
    pub(crate) temporaries: Vec<PathBuf>,
    /// What could be taken for a segment and is none, with the reason.
    pub(crate) foreign: Vec<(PathBuf, &'static str)>,
    /// Anything else.
    pub(crate) strangers: Vec<PathBuf>,
}

impl Listing {
    /// Segment files before copies: a segment that moves to another tier while we look is
    /// found twice, not never.
    pub(crate) fn take(storage: &dyn Storage, layout: &Layout) -> Result<Self> {
        let (names, foreign) = layout.sort_names(storage)?;
        let dir = layout.segments_dir();
        let join = |names: Vec<String>| names.iter().map(|name| dir.join(name)).collect();
        let mut listing = Self {
            segments: Vec::new(),
            spares: names.spares,
            temporaries: join(names.temporaries),
            strangers: join(names.strangers),
            foreign,
        };
        let warm = listing.sort_copies(storage, layout.warm_dir(), WarmFileName::parse)?;
        let cold = listing.sort_copies(storage, layout.cold_dir(), ColdTailName::parse)?;
        let hot = names.segments.iter().map(SegmentNames::of_hot);
        let warm = warm.iter().map(SegmentNames::of_warm);
        let cold = cold.iter().map(SegmentNames::of_cold);
        listing.segments = joined(hot.chain(warm).chain(cold).collect());
        listing.foreign.sort();
        listing.strangers.sort();
        listing.temporaries.sort();
        Ok(listing)
    }

    /// Names in a directory of copies, which need not exist, in order.
    fn sort_copies<T: Ord>(
        &mut self,
        storage: &dyn Storage,
        dir: PathBuf,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut names = Vec::new();
        for entry in list_if_there(storage, &dir)? {
            let is_file = entry.kind == EntryKind::File;
            match parse(&entry.name) {
                Some(name) if is_file => names.push(name),
                _ if [COLD_LOCATION_NAME, COLD_WRITER_NAME].contains(&entry.name.as_str()) => {}
                _ if entry.name.ends_with(".tmp") && is_file => {
                    self.temporaries.push(dir.join(&entry.name));
                }
                _ => self.strangers.push(dir.join(&entry.name)),
            }
        }
        names.sort();
        Ok(names)
    }

    /// An error if something could be taken for a segment and is none.
    pub(crate) fn refuse_foreign(&self) -> Result<()> {
        match self.foreign.first() {
            Some((path, reason)) => {
                Err(AofError::Foreign { path: path.clone(), reason: (*reason).to_owned() })
            }
            None => Ok(()),
        }
    }

    /// The segment with this number, if some file is named for it.
    pub(crate) fn find(&self, segment_id: SegmentId) -> Option<&SegmentNames> {
        let at = self.segments.binary_search_by_key(&segment_id, |names| names.segment_id);
        at.ok().and_then(|at| self.segments.get(at))
    }
}

/// Names of copies in the order of their segments, those of one segment together. The sort
/// is stable and quick: each tier comes in order.
fn joined(mut segments: Vec<SegmentNames>) -> Vec<SegmentNames> {
    segments.sort_by_key(|names| names.segment_id);
    segments.dedup_by(|other, first| {
        let is_same = other.segment_id == first.segment_id;
        if is_same {
            first.hot.append(&mut other.hot);
            first.warm.append(&mut other.warm);
            first.cold.append(&mut other.cold);
        }
        is_same
    });
    segments
}

/// Names of files in a directory that parse, in order; none if it does not exist.
pub(super) fn list_names<T: Ord>(
    storage: &dyn Storage,
    dir: &Path,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>> {
    let entries = list_if_there(storage, dir)?;
    let files = entries.iter().filter(|entry| entry.kind == EntryKind::File);
    let mut names: Vec<_> = files.filter_map(|entry| parse(&entry.name)).collect();
    names.sort();
    Ok(names)
}

/// The entries of a directory; none if it does not exist.
fn list_if_there(storage: &dyn Storage, dir: &Path) -> Result<Vec<DirEntry>> {
    match storage.list(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries.map_err(AofError::io("list directory", dir)),
    }
}
