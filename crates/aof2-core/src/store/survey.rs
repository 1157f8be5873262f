//! What a log's directory holds, found without changing anything: the common first
//! step of opening for writing, opening for reading, claiming and comparing.
//!
//! Costs one open and two small reads per segment.

use std::path::PathBuf;
use std::sync::Arc;

use super::cold::ColdStore;
use super::copy::{ColdCopy, Copies};
use super::found::Found;
use super::identity::{directory_name, recorded_id, unidentified};
use super::kept_index;
use super::layout::Layout;
use super::lineage::{load_lineage, recorded_lineage};
use super::listing::{Listing, SegmentNames};
use crate::error::{AofError, Result};
use crate::format::{Lineage, SegmentFileName, SegmentFormat, StreamId, StreamIdentity};
use crate::io::Storage;
use crate::segment::Artifact;

/// How a directory is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) layout: &'a Layout,
    pub(crate) cold: &'a ColdStore,
    /// Of a segment whose header does not tell.
    pub(crate) format: SegmentFormat,
}

/// How often the names are listed again because a file was gone when its turn came.
const LISTINGS_MAX: usize = 16;

impl Look<'_> {
    /// Reads what is needed to know these segments. One whose files are gone since they
    /// were listed may be in another tier by now: the names are listed again, since it must
    /// not be taken for lost. What retention removed is not found again.
    pub(crate) fn segments<'n>(
        &self,
        listed: impl Iterator<Item = &'n SegmentNames>,
        blank_twins: &mut Vec<PathBuf>,
    ) -> Result<Vec<Found>> {
        let (mut all, mut again) = (Vec::new(), Vec::new());
        for names in listed {
            let mut found = self.segment(names, blank_twins)?;
            if found.is_none() && names.hot.len() < 2 {
                if again.len() < LISTINGS_MAX {
                    again.push(Listing::take(self.storage, self.layout)?);
                }
                let now = again.last().and_then(|listing| listing.find(names.segment_id));
                if let Some(names) = now {
                    found = self.segment(names, blank_twins)?;
                }
            }
            all.extend(found);
        }
        Ok(all)
    }

    /// Reads what is needed to know a segment; `None` if it is gone since it was listed.
    /// Where there is a file and copies, the file is read and the copies are remembered,
    /// unless the file is nothing to go by.
    pub(crate) fn segment(
        &self,
        names: &SegmentNames,
        blank_twins: &mut Vec<PathBuf>,
    ) -> Result<Option<Found>> {
        let path_of = |name: &SegmentFileName| self.layout.segment_path(name);
        let copies = match names.is_compressed() {
            true => Some(self.compressed(names)),
            false => None,
        };
        match (self.file(names, blank_twins)?, copies) {
            (Some(mut found), Some(Ok(copies))) if found.sealed().is_some() => {
                found.copies = Copies { is_hot: true, ..copies };
                Ok(Some(found))
            }
            // Sealed once, or it could not have been compressed.
            (Some(found), Some(Ok(copies))) => {
                let path = found.path.clone();
                Ok(Some(Found::of_compressed(|_| path, copies).unwrap_or(found)))
            }
            (Some(mut found), Some(Err(error))) => {
                tracing::warn!(%error, segment = %names.segment_id, "a copy is left aside");
                found.copies.has_stray = true;
                Ok(Some(found))
            }
            (Some(found), None) => Ok(Some(found)),
            // Evicted, perhaps since it was listed.
            (None, Some(Ok(copies))) => Ok(Found::of_compressed(path_of, copies)),
            (None, Some(Err(error))) if error.is_not_found() => Ok(None),
            (None, Some(Err(error))) if names.hot.is_empty() && is_damage(&error) => {
                let path = names.compressed_path(self.layout);
                Ok(Some(Found::of_damaged(names.segment_id, path, &error)))
            }
            (None, Some(Err(error))) if names.hot.is_empty() => Err(error),
            (None, _) => Ok(None),
        }
    }

    /// The segment file. A segment that was replaced by a larger one before its first record
    /// may have survived a crash beside it: the blank one of two goes.
    fn file(&self, names: &SegmentNames, blank_twins: &mut Vec<PathBuf>) -> Result<Option<Found>> {
        let mut kept: Option<Found> = None;
        for name in &names.hot {
            let path = self.layout.segment_path(name);
            let found = match Found::load(self.storage, *name, path, self.format) {
                // Removed by retention or a closing writer since it was listed.
                Err(error) if error.is_not_found() => continue,
                found => found?,
            };
            if names.hot.len() > 1 && found.is_blank() {
                blank_twins.push(found.path);
                continue;
            }
            if let Some(kept) = &kept {
                let reason = format!("{} has the same segment id", kept.name);
                return Err(AofError::Foreign { path: found.path, reason });
            }
            kept = Some(found);
        }
        Ok(kept)
    }

    /// Opens the compressed copies. One that is damaged is passed over if there is another.
    fn compressed(&self, names: &SegmentNames) -> Result<Copies> {
        let Self { storage, layout, cold, .. } = *self;
        let warm = names
            .warm
            .last()
            .map(|name| Artifact::open_file(storage, layout.warm_path(name)).map(Arc::new));
        let cold = names.cold.last().map(|name| {
            let artifact = kept_index::open(storage, layout, name, cold)?;
            Ok(ColdCopy { artifact, epoch: name.epoch })
        });
        let copies = Copies { has_stray: names.has_earlier(), ..Copies::default() };
        let left_aside = |error: &AofError| {
            tracing::warn!(%error, segment = %names.segment_id, "a copy is left aside");
        };
        match (warm.transpose(), cold.transpose()) {
            (Ok(warm), Ok(cold)) => Ok(Copies { warm, cold, ..copies }),
            (Ok(Some(warm)), Err(error)) => {
                left_aside(&error);
                Ok(Copies { warm: Some(warm), has_stray: true, ..copies })
            }
            (Err(error), Ok(Some(cold))) => {
                left_aside(&error);
                Ok(Copies { cold: Some(cold), has_stray: true, ..copies })
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        }
    }
}

/// The stream's identity and its segment files, oldest first.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) identity: Option<StreamIdentity>,
    pub(crate) found: Vec<Found>,
    /// Blank files that share their id with a real segment.
    pub(crate) blank_twins: Vec<PathBuf>,
    pub(crate) listing: Listing,
    /// What the log has from others, if it is a fork.
    pub(crate) lineage: Option<Lineage>,
}

impl Survey {
    /// Lists and reads. `NotALog` when there is no `segments/` directory.
    pub(crate) fn take(storage: &dyn Storage, layout: &Layout, cold: &ColdStore) -> Result<Self> {
        layout.check_is_log(storage)?;
        let identity = layout.load_identity(storage)?;
        let format = identity.as_ref().map_or(SegmentFormat::Full, |i| i.format);
        let lineage = match &identity {
            Some(identity) => load_lineage(storage, layout, identity)?,
            None => recorded_lineage(storage, layout)?,
        };
        let mut listing = Listing::take(storage, layout)?;
        listing.refuse_foreign()?;
        if let Some(lineage) = &lineage {
            // Copies of inherited segments, of which not all are there yet.
            listing.segments.retain(|names| names.segment_id >= lineage.start.segment);
        }
        let look = Look { storage, layout, cold, format };
        let mut blank_twins = Vec::new();
        let found = look.segments(listing.segments.iter(), &mut blank_twins)?;
        let stream_id = identity.as_ref().map(|i| i.stream_id).or_else(|| first_stream_id(&found));
        for f in &found {
            f.check_belongs(storage, stream_id)?;
        }
        Ok(Self { identity, found, blank_twins, listing, lineage })
    }

    /// The identity, from its file or else from the segments; `None` if there is no log.
    /// An error if there is one and nothing tells which.
    pub(crate) fn identity_or_derived(
        &self,
        storage: &dyn Storage,
        layout: &Layout,
    ) -> Result<Option<StreamIdentity>> {
        if self.identity.is_some() {
            return Ok(self.identity.clone());
        }
        let first = self.found.iter().find(|f| matches!(f.header, Ok(Some(_))));
        let Some(first) = first else { return Ok(self.of_lineage(layout)) };
        let told = first_stream_id(&self.found).or_else(|| recorded_id(storage, layout));
        Ok(Some(StreamIdentity {
            stream_id: told.ok_or_else(|| unidentified(layout))?,
            name: directory_name(layout.root()),
            format: first.format,
            created_at_ns: first.name.created_at_ns,
            lineage: self.lineage.as_ref().map(Lineage::checksum),
        }))
    }

    /// The identity of a fork that has no segments of its own yet.
    fn of_lineage(&self, layout: &Layout) -> Option<StreamIdentity> {
        let lineage = self.lineage.as_ref()?;
        Some(StreamIdentity {
            stream_id: lineage.stream_id,
            name: directory_name(layout.root()),
            format: SegmentFormat::Full,
            created_at_ns: 0,
            lineage: Some(lineage.checksum()),
        })
    }
}

/// Whether the bytes are wrong, as opposed to out of reach.
fn is_damage(error: &AofError) -> bool {
    matches!(error, AofError::Corrupt(_) | AofError::Foreign { .. })
}

/// The id that a segment tells: its header, or else the index of its compressed copy.
fn first_stream_id(found: &[Found]) -> Option<StreamId> {
    let in_header = |f: &Found| f.header.as_ref().ok()?.as_ref()?.stream_id;
    let in_copy = |f: &Found| Some(f.copies.compressed()?.meta().stream_id);
    found.iter().find_map(in_header).or_else(|| found.iter().find_map(in_copy))
}
