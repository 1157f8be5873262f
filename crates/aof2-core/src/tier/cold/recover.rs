//! Before a log is opened: finding what only the bucket knows.
//!
//! Opening asks the object store nothing unless something is missing here: the whole
//! log, its manifest, or the end of a segment that the manifest says is in the bucket.
//! Then every object without its end kept here gets one, and a log that was lost is
//! there again, all of it cold.
//!
//! What a crash leaves: some of the kept ends and of the manifest, each whole, and a
//! directory without an identity if it had none. The next opening goes on.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bucket::{ColdTier, latest};
use super::chunks::ColdChunks;
use super::place;
use crate::error::{AofError, Result};
use crate::format::{ColdKey, ColdTailName, SegmentId, StreamId, StreamIdentity, WarmFileName};
use crate::io::{Clock, Storage};
use crate::log::{ArchivedObject, Layout, list_cold_tails, store_cold_tail};
use crate::manifest::{ManifestIndex, ManifestLayout, ManifestReader, replay, restore_chunks};

/// What was brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Segments whose place in the bucket was not known here.
    pub(crate) segments: u64,
    /// Objects with the key of a segment that are not that, and why.
    pub(crate) refused: Vec<(SegmentId, String)>,
}

/// Makes sure that what the bucket holds of this stream is known in its directory. The
/// caller has the writer's lock.
pub(crate) fn recover(
    tier: &Arc<ColdTier>,
    storage: &Arc<dyn Storage>,
    clock: &dyn Clock,
    layout: &Layout,
    name: &str,
) -> Result<Recovered> {
    place::store(&**storage, layout, &tier.location())?;
    let known = layout.load_identity(&**storage)?;
    let stream_id = known.as_ref().map_or_else(|| StreamId::from_name(name), |i| i.stream_id);
    let index = load_index(storage, clock, layout, stream_id)?;
    let tails = list_cold_tails(&**storage, layout)?;
    let is_complete =
        known.is_some() && index.as_ref().is_some_and(|index| missing(index, &tails).is_empty());
    if is_complete {
        return Ok(Recovered::default());
    }
    let new = match known {
        Some(_) => None,
        None => tier.identity(stream_id)?,
    };
    bring(tier, storage, clock, layout, stream_id, new.as_ref())
}

/// Brings what is known of every archived segment into the directory, and then its
/// identity if that is `new`. That comes last: a directory without one is asked about
/// again, while the manifest of one that has it may not know of the latest objects.
pub(crate) fn bring(
    tier: &Arc<ColdTier>,
    storage: &Arc<dyn Storage>,
    clock: &dyn Clock,
    layout: &Layout,
    stream_id: StreamId,
    new: Option<&StreamIdentity>,
) -> Result<Recovered> {
    let objects = tier.list(stream_id)?;
    if let Some(identity) = new {
        tracing::info!(stream = %identity.name, segments = objects.len(), "found in the cold tier");
    }
    let mut index = load_index(storage, clock, layout, stream_id)?;
    if (index.is_none() || new.is_some()) && !objects.is_empty() {
        let manifest = ManifestLayout::new(layout.root(), stream_id);
        let chunks = ColdChunks(Arc::clone(tier));
        restore_chunks(&**storage, &manifest, &chunks, &tier.url().prefix)?;
        index = load_index(storage, clock, layout, stream_id)?;
    }
    let tails = list_cold_tails(&**storage, layout)?;
    let wanted = wanted(&objects, &tails, index.as_ref());
    let mut recovered = Recovered::default();
    tier.indexes(stream_id, &wanted, |object, read| {
        let index = match read {
            Ok(index) => index,
            // Somebody else's bytes under our key do not keep the rest away.
            Err(error @ AofError::Foreign { .. }) => {
                tracing::warn!(%error, "left aside");
                recovered.refused.push((object.segment_id, error.to_string()));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let artifact = WarmFileName::of(&index.summary);
        let name = ColdTailName { artifact, epoch: object.epoch };
        store_cold_tail(&**storage, layout, &name, &index)?;
        recovered.segments += 1;
        Ok(())
    })?;
    if let Some(identity) = new {
        layout.store_identity(&**storage, identity)?;
    }
    Ok(recovered)
}

/// What the manifest adds up to; `None` if there is none, or none that can be read.
fn load_index(
    storage: &Arc<dyn Storage>,
    clock: &dyn Clock,
    layout: &Layout,
    stream_id: StreamId,
) -> Result<Option<ManifestIndex>> {
    let manifest = ManifestLayout::new(layout.root(), stream_id);
    let dir = manifest.dir().to_owned();
    if !storage.exists(&dir).map_err(AofError::io("look for", &dir))? {
        return Ok(None);
    }
    let reader = ManifestReader::of_layout(Arc::clone(storage), manifest);
    match replay(&reader, clock) {
        Ok((index, _)) if index.next_record() > 0 => Ok(Some(index)),
        // Opening the manifest will say what is wrong with it.
        _ => Ok(None),
    }
}

/// Segments that the manifest knows to be in the bucket, and whose end is not kept here.
fn missing(index: &ManifestIndex, tails: &[ColdTailName]) -> BTreeSet<SegmentId> {
    let kept: BTreeSet<(SegmentId, u32)> =
        tails.iter().map(|name| (name.artifact.segment_id, name.epoch)).collect();
    let doomed: BTreeSet<&str> = index.pending_deletes().map(|d| d.key.as_str()).collect();
    let archived = index.segments().filter_map(|segment| {
        let key = segment.cold_key.as_deref().filter(|key| !doomed.contains(key))?;
        let epoch = ColdKey::parse(key)?.epoch();
        (!kept.contains(&(segment.segment_id, epoch))).then_some(segment.segment_id)
    });
    archived.collect()
}

/// The latest object of each segment whose end is not kept here, less those that are to
/// be deleted.
fn wanted(
    objects: &[ArchivedObject],
    tails: &[ColdTailName],
    index: Option<&ManifestIndex>,
) -> Vec<ArchivedObject> {
    let doomed: BTreeSet<(SegmentId, u32)> = index
        .into_iter()
        .flat_map(|index| index.pending_deletes())
        .filter_map(|delete| ColdKey::parse(&delete.key))
        .map(|key| (key.segment_id(), key.epoch()))
        .collect();
    let mut latest = latest(objects.iter().filter(|o| !doomed.contains(&(o.segment_id, o.epoch))));
    latest.retain(|object| {
        let kept = tails.iter().filter(|name| name.artifact.segment_id == object.segment_id);
        kept.map(|name| name.epoch).max() < Some(object.epoch)
    });
    latest
}
