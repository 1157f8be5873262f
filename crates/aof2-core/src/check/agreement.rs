//! Whether the manifest of a log agrees with its segment files, for whoever looks from
//! outside; the writer itself asks [`Aof::compare_manifest`](crate::manager::Aof).

use std::path::Path;
use std::sync::Arc;

use crate::error::{AofError, Result};
use crate::format::SegmentId;
use crate::io::{Storage, SystemClock};
use crate::manifest::{
    Divergence, DivergenceKind, ManifestIndex, ManifestReader, ScannedSegment, find_divergences,
    replay,
};
use crate::store::ColdStore;
use crate::store::Layout;
use crate::store::refuse_address;
use crate::store::{Found, Survey};

/// A log that is being written is looked at again, so often, while the two disagree.
const LOOKS_MAX: usize = 8;

/// One disagreement between a manifest and the files, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// What disagrees.
    pub divergence: Divergence,
    /// Whether one of the two is wrong. Otherwise the manifest is only behind: it was
    /// switched off, or its writer was killed or is at work, and the next opening that
    /// writes it catches up.
    pub is_damage: bool,
}

impl ScannedSegment {
    pub(crate) fn of_file(found: &Found) -> Self {
        let info = found.sealed();
        Self {
            segment_id: found.name.segment_id,
            base_offset: found.name.base_offset,
            durable_bytes: info.map(|i| u64::from(i.durable_bytes)),
            segment_crc64: info.map(|i| i.segment_crc64),
            ext_id: info.map(|i| i.ext_id),
        }
    }
}

/// Compares the manifest of the log in this directory with its segment files. Takes no
/// lock and writes nothing. Fails if either cannot be read; a log without a manifest
/// agrees with nothing: every file is missing in it.
///
/// ```
/// use std::sync::Arc;
/// use aof2_core::io::{OsStorage, Storage};
/// use aof2_core::manifest::ManifestMode;
/// use aof2_core::{Aof, AofConfig, compare_manifest};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("events");
/// let log = Aof::open(AofConfig { manifest_mode: ManifestMode::Enabled, ..AofConfig::new(&path) })?;
/// log.append(b"hello")?;
/// log.close()?;
/// let storage: Arc<dyn Storage> = Arc::new(OsStorage);
/// assert_eq!(compare_manifest(&storage, &path)?, []);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn compare_manifest(
    storage: &Arc<dyn Storage>,
    root: impl AsRef<Path>,
) -> Result<Vec<Disagreement>> {
    refuse_address(root.as_ref())?;
    let layout = Layout::new(root.as_ref());
    let mut look = 1;
    loop {
        let found = compare_once(storage, &layout)?;
        if found.is_empty() || look == LOOKS_MAX {
            return Ok(found);
        }
        std::thread::sleep(std::time::Duration::from_millis(1 << look));
        look += 1;
    }
}

fn compare_once(storage: &Arc<dyn Storage>, layout: &Layout) -> Result<Vec<Disagreement>> {
    // The files first: what the manifest heard of since is not held against them.
    let survey = Survey::take(&**storage, layout, &ColdStore::default())?;
    let Some(identity) = survey.identity_or_derived(&**storage, layout)? else {
        return Err(AofError::NotALog {
            path: layout.root().to_owned(),
            reason: "it has neither a stream file nor a segment".into(),
        });
    };
    let reader = ManifestReader::new(Arc::clone(storage), layout.root(), identity.stream_id);
    let (index, _) = replay(&reader, &SystemClock)?;
    let mut found = judge(&index, &survey);
    if found.iter().any(|disagreement| disagreement.is_damage) {
        // A writer may have sealed a segment, and recorded it, since the files were
        // looked at. What is wrong is wrong before and after.
        let again = Survey::take(&**storage, layout, &ColdStore::default())?;
        let again = judge(&index, &again);
        let is_same = |a: &Disagreement, b: &Disagreement| {
            (a.divergence.segment_id, a.divergence.kind)
                == (b.divergence.segment_id, b.divergence.kind)
        };
        found.retain(|a| !a.is_damage || again.iter().any(|b| is_same(a, b)));
    }
    Ok(found)
}

fn scanned(survey: &Survey, index: &ManifestIndex) -> Vec<ScannedSegment> {
    survey
        .found
        .iter()
        // A file that was never written to exists for whoever recorded its opening.
        .filter(|found| !found.is_blank() || index.get(found.name.segment_id).is_some())
        .filter(|found| found.copies.is_hot)
        .map(ScannedSegment::of_file)
        .collect()
}

fn judge(index: &ManifestIndex, survey: &Survey) -> Vec<Disagreement> {
    let files = scanned(survey, index);
    // A crash may come between the removal of a file that another tier holds, and its
    // record.
    let is_evicted =
        |id: SegmentId| survey.found.iter().any(|f| !f.copies.is_hot && f.name.segment_id == id);
    let inside = |id: SegmentId| {
        let first = files.iter().map(|f| f.segment_id).min();
        let last = files.iter().map(|f| f.segment_id).max();
        first.is_some_and(|first| first < id) && last.is_some_and(|last| id < last)
    };
    let judged = find_divergences(index, &files).into_iter().map(|divergence| {
        let is_damage = match divergence.kind {
            DivergenceKind::NotInManifest | DivergenceKind::SealNotInManifest => false,
            // Retention takes the oldest; one from the middle was lost.
            DivergenceKind::NotOnDisk => {
                inside(divergence.segment_id) && !is_evicted(divergence.segment_id)
            }
            _ => true,
        };
        Disagreement { divergence, is_damage }
    });
    judged.collect()
}
