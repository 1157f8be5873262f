//! A directory that claims its log: what it knows of the bucket, and what it learns.
//!
//! Every object that stands in the bucket and whose end is not kept here gets one, so that
//! a log that was lost is there again, all of it cold, and one that another writer went on
//! with goes on behind that. An object that contradicts a segment of the directory is
//! refused.
//!
//! What a crash leaves: some of the kept ends and of the manifest, each whole, and a
//! directory without an identity if it had none. The next opening goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::place;
use super::store::ColdStore;
use crate::bucket::ArchivedObject;
use crate::bucket::ColdChunks;
use crate::bucket::ColdTier;
use crate::bucket::{Claim, Claimant};
use crate::error::{AofError, DivergedLog, Result};
use crate::format::{
    ArtifactIndex, ColdKey, ColdTailName, LastClaim, SegmentFormat, SegmentId, StreamId,
    StreamIdentity, WarmFileName,
};
use crate::io::{Clock, Storage};
use crate::manifest::{ManifestIndex, ManifestLayout, ManifestReader, replay, restore_chunks};
use crate::store::{Found, Layout, Listing, Look, SealedInfo, SegmentNames, kept_index};

/// Claims the log and makes sure that what the bucket holds of it is known in its
/// directory. The caller has the writer's lock. A log that is `new` here gets its identity
/// last: a directory without one is no log yet.
pub(crate) fn claim(
    tier: &Arc<ColdTier>,
    storage: &Arc<dyn Storage>,
    clock: &dyn Clock,
    layout: &Layout,
    identity: &StreamIdentity,
    cold: &ColdStore,
) -> Result<Claim> {
    let is_new = layout.load_identity(&**storage)?.is_none();
    place::store_location(&**storage, layout, &tier.location())?;
    let directory = Directory::open(tier, storage, clock, layout, identity, cold, is_new)?;
    let claim = tier.take_over(identity, &**storage, clock, &directory)?;
    if is_new {
        layout.store_identity(&**storage, identity)?;
    }
    Ok(claim)
}

/// Brings what is known of every archived segment into a directory that is to be read, and
/// then its identity. Claims nothing. Returns what is not what its key says.
pub(crate) fn bring(
    tier: &Arc<ColdTier>,
    storage: &Arc<dyn Storage>,
    clock: &dyn Clock,
    layout: &Layout,
    identity: &StreamIdentity,
    cold: &ColdStore,
) -> Result<Vec<(SegmentId, String)>> {
    let is_new = layout.load_identity(&**storage)?.is_none();
    let directory = Directory::open(tier, storage, clock, layout, identity, cold, is_new)?;
    let view = tier.view(identity.stream_id)?;
    tier.adopt_all(identity.stream_id, &view, &directory)?;
    if is_new {
        layout.store_identity(&**storage, identity)?;
    }
    Ok(directory.refused.into_inner())
}

/// The directory of a log that is claimed.
struct Directory<'a> {
    storage: &'a dyn Storage,
    layout: &'a Layout,
    url: String,
    format: SegmentFormat,
    cold: &'a ColdStore,
    /// What is here, by segment.
    present: BTreeMap<SegmentId, SegmentNames>,
    /// What the manifest here says of objects, if there is one.
    told: Option<Told>,
    refused: Mutex<Vec<(SegmentId, String)>>,
}

impl<'a> Directory<'a> {
    fn open(
        tier: &Arc<ColdTier>,
        storage: &'a Arc<dyn Storage>,
        clock: &dyn Clock,
        layout: &'a Layout,
        identity: &StreamIdentity,
        cold: &'a ColdStore,
        is_new: bool,
    ) -> Result<Self> {
        let stream_id = identity.stream_id;
        let listing = Listing::take(&**storage, layout)?;
        listing.refuse_foreign()?;
        let present = listing.segments;
        let mut index = load_index(storage, clock, layout, stream_id)?;
        // A log with an identity and nothing else was created just now.
        if is_new || (index.is_none() && !present.is_empty()) {
            let manifest = ManifestLayout::new(layout.root(), stream_id);
            let chunks = ColdChunks::reading(tier);
            let prefix = &tier.url().prefix;
            let report = restore_chunks(&**storage, &manifest, &chunks, prefix)?;
            index = load_index(storage, clock, layout, stream_id)?;
            if index.is_none() {
                // Pieces of a history that do not fit together. The segments tell
                // themselves where they are, and a new manifest begins with that.
                for chunk_index in report.restored {
                    let path = manifest.chunk_path(chunk_index);
                    storage.remove(&path).map_err(AofError::io("remove", &path))?;
                }
            }
        }
        Ok(Self {
            storage: &**storage,
            layout,
            url: tier.url().to_string(),
            format: identity.format,
            cold,
            present: present.into_iter().map(|names| (names.segment_id, names)).collect(),
            told: index.as_ref().map(Told::of),
            refused: Mutex::default(),
        })
    }

    fn local(&self, segment_id: SegmentId) -> Result<Option<Found>> {
        let Some(names) = self.present.get(&segment_id) else { return Ok(None) };
        let Self { storage, layout, cold, format, .. } = *self;
        match (Look { storage, layout, cold, format }).segment(names, &mut Vec::new()) {
            Ok(found) => Ok(found),
            // Damaged here: the object is what there is to go by.
            Err(AofError::Foreign { .. } | AofError::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What the manifest of a directory says of objects.
struct Told {
    /// To be deleted.
    doomed: BTreeSet<(SegmentId, u32)>,
    /// Holding a segment.
    archived: BTreeSet<(SegmentId, u32)>,
}

impl Told {
    fn of(index: &ManifestIndex) -> Self {
        let place = |key: &str| ColdKey::parse(key).map(|key| (key.segment_id(), key.epoch()));
        let archived = index.segments().filter_map(|segment| place(segment.cold_key.as_deref()?));
        Self {
            doomed: index.pending_deletes().filter_map(|delete| place(&delete.key)).collect(),
            archived: archived.collect(),
        }
    }

    /// Whether the directory, which begins with `first`, let an object go: said so, or
    /// never heard how its upload ended before it let the segment go. One behind an object
    /// that comes back comes back, too: a log has no hole.
    fn is_let_go(
        &self,
        object: &ArchivedObject,
        first: Option<SegmentId>,
        returning: Option<SegmentId>,
    ) -> bool {
        let is_before = first.is_some_and(|first| object.segment_id < first);
        let returns = returning.is_some_and(|returning| object.segment_id >= returning);
        self.is_doomed(object) || (is_before && !returns)
    }

    /// The first of these objects that comes back to a directory that begins with `first`:
    /// one that held a segment, behind all that are to be deleted.
    fn returning(&self, objects: &[ArchivedObject], first: Option<SegmentId>) -> Option<SegmentId> {
        let before = objects.iter().filter(|object| Some(object.segment_id) < first);
        let kept = before.rev().take_while(|object| !self.is_doomed(object));
        let held = kept.filter(|o| self.archived.contains(&(o.segment_id, o.epoch)));
        held.last().map(|object| object.segment_id)
    }

    fn is_doomed(&self, object: &ArchivedObject) -> bool {
        self.doomed.contains(&(object.segment_id, object.epoch))
    }
}

impl Claimant for Directory<'_> {
    fn last(&self) -> Result<Option<LastClaim>> {
        self.layout.load_last_claim(self.storage)
    }

    fn remember(&self, claim: LastClaim) -> Result<()> {
        self.layout.store_last_claim(self.storage, claim)
    }

    fn unknown(&self, objects: Vec<ArchivedObject>, is_alone: bool) -> Result<Vec<ArchivedObject>> {
        let first = self.present.keys().next().copied();
        // What this directory let go does not come back, unless another writer kept it since.
        let told = self.told.as_ref().filter(|_| is_alone);
        let returning = told.and_then(|told| told.returning(&objects, first));
        let is_unknown = |object: &ArchivedObject| {
            let names = self.present.get(&object.segment_id);
            let kept = names.iter().flat_map(|names| &names.cold);
            let is_gone = told.is_some_and(|told| told.is_let_go(object, first, returning));
            !is_gone && kept.map(|name| name.epoch).max() < Some(object.epoch)
        };
        Ok(objects.into_iter().filter(is_unknown).collect())
    }

    fn agree(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()> {
        let summary = &index.summary;
        let differs = |what: &str, local: &Found| {
            let here = format!("{what} in {}", local.name);
            Err(diverged(self.layout, &self.url, object, index, &here))
        };
        if let Some(local) = self.local(object.segment_id)?.filter(|local| !local.is_blank()) {
            let Some(info) = local.sealed() else {
                return differs("records that were never archived", &local);
            };
            let archived = SealedInfo::from(&summary.footer());
            // A footer that is damaged says nothing; the object heals it.
            if !info.from_footer || info.is_same_content(&archived) {
                return Ok(());
            }
            return differs(&format!("{} records", info.record_count), &local);
        }
        // It is not here, so what is here must continue it.
        let behind = self.present.range(object.segment_id.next()..).next();
        let Some((next, _)) = behind else { return Ok(()) };
        let Some(next) = self.local(*next)?.filter(|next| !next.is_blank()) else { return Ok(()) };
        let end = summary.first_offset + summary.record_count;
        let is_next = next.name.segment_id == object.segment_id.next();
        // One without a footer was written behind this one if it says so itself: its name,
        // and its first record if it has one.
        let base_offset = summary.base_offset + u64::from(summary.durable_bytes);
        let continues = match next.sealed() {
            Some(_) => next.claimed_first_offset() == Some(end),
            None => {
                next.name.base_offset == base_offset
                    && next.claimed_first_offset().is_none_or(|first| first == end)
            }
        };
        // Further ones tell nothing: they are compared with the object before them, or with
        // one of their own.
        if continues || !is_next {
            return Ok(());
        }
        differs("records that do not continue it", &next)
    }

    fn adopt(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()> {
        let artifact = WarmFileName::of(&index.summary);
        let name = ColdTailName { artifact, epoch: object.epoch };
        kept_index::store(self.storage, self.layout, &name, index)?;
        if let Some(local) = self.local(object.segment_id)?.filter(Found::is_blank) {
            // Prepared here for records that another writer has written since.
            let path = &local.path;
            self.storage.remove(path).map_err(AofError::io("remove empty segment", path))?;
            let dir = self.layout.segments_dir();
            self.storage.sync_dir(&dir).map_err(AofError::io("sync directory", &dir))?;
        }
        Ok(())
    }

    fn cut(&self, start: SegmentId, goes: bool) -> Result<()> {
        let mut has_begun = false;
        for (id, names) in self.present.range(..start) {
            if names.cold.is_empty() {
                let local = self.local(*id)?;
                // What cannot be recognised may hold records, too.
                if local.as_ref().is_none_or(|found| !found.is_blank()) {
                    let offset = local.and_then(|found| found.claimed_first_offset()).unwrap_or(0);
                    return Err(before_start(self.layout, &self.url, offset, *id, start));
                }
            }
            if goes && !has_begun {
                // Until all of this is done the directory is not a log that can be opened
                // without the bucket: what is to replace these segments is not here yet.
                let lineage = self.last()?.map_or(0, |last| last.lineage);
                self.remember(LastClaim { epoch: LastClaim::UNDER_WAY, lineage })?;
                has_begun = true;
            }
            // The kept end last: as long as it is there, the segment is known as archived.
            for path in names.paths(self.layout).iter().filter(|_| goes) {
                self.storage.remove(path).map_err(AofError::io("remove", path))?;
                let dir = path.parent().unwrap_or(self.layout.root());
                self.storage.sync_dir(dir).map_err(AofError::io("sync directory", dir))?;
            }
        }
        Ok(())
    }

    fn refuse(&self, object: &ArchivedObject, error: AofError) {
        tracing::warn!(%error, "left aside");
        let mut refused = self.refused.lock();
        if refused.iter().all(|(id, _)| *id != object.segment_id) {
            refused.push((object.segment_id, error.to_string()));
        }
    }
}

/// The error for a segment that is not what the bucket holds under its number.
pub(crate) fn diverged(
    layout: &Layout,
    url: &str,
    object: &ArchivedObject,
    index: &ArtifactIndex,
    here: &str,
) -> AofError {
    let summary = &index.summary;
    let end = summary.first_offset + summary.record_count;
    AofError::Diverged(Box::new(DivergedLog {
        path: layout.root().to_owned(),
        url: url.to_owned(),
        offset: summary.first_offset,
        here: here.to_owned(),
        there: format!(
            "segment {} with records {} to {}",
            object.segment_id,
            summary.first_offset,
            end.saturating_sub(1)
        ),
    }))
}

/// The same for a segment that was never archived and lies before the start of the log.
pub(crate) fn before_start(
    layout: &Layout,
    url: &str,
    offset: u64,
    segment_id: SegmentId,
    start: SegmentId,
) -> AofError {
    AofError::Diverged(Box::new(DivergedLog {
        path: layout.root().to_owned(),
        url: url.to_owned(),
        offset,
        here: format!("segment {segment_id}, which was never archived"),
        there: format!("a log that begins with segment {start}"),
    }))
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
