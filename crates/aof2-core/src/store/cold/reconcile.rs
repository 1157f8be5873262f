//! Before the first upload: the log is claimed, nothing of an earlier crash is left, and
//! what we believe to be in the bucket is there.

use super::recover::{before_start, diverged};
use crate::bucket::{ArchivedObject, Claim, Claimant, ColdTier, StoredObject};
use crate::error::{AofError, Result};
use crate::format::manifest::ManifestEvent;
use crate::format::{ArtifactIndex, ColdKey, LastClaim, SegmentId};
use crate::store::change::Change;
use crate::store::{SealedInfo, Store};

impl Store {
    /// What must come before the first upload, by whoever comes first.
    pub(crate) fn reconcile(&self) -> Result<()> {
        let cold = self.cold().require_tier()?;
        let _one_at_a_time = self.cold().lock_reconciling();
        if self.cold().is_reconciled() {
            return Ok(());
        }
        let claim = match self.cold().writer.claim() {
            Some(claim) => claim,
            None => claim_open_log(cold, self)?,
        };
        let aborted = cold.abort_unfinished(self.stream_id())?;
        if aborted > 0 {
            tracing::info!(aborted, "unfinished uploads of an earlier writer were given up");
        }
        forget_missing(cold, self, &claim)?;
        record_deleted(cold, self, &claim)?;
        self.check_manifest_uploads()?;
        for object in claim.view.leftovers() {
            self.queue_delete_of(cold, &object)?;
        }
        cut(self, claim.view.start())?;
        self.cold().set_reconciled();
        Ok(())
    }

    /// Records that an object that nobody reads is to be deleted.
    pub(super) fn queue_delete_of(&self, cold: &ColdTier, object: &ArchivedObject) -> Result<()> {
        let key = cold.key(self.stream_id(), object.segment_id, object.epoch);
        let is_queued =
            self.look_at_manifest(|index| index.pending_deletes().any(|d| d.key == key));
        match is_queued {
            Some(true) => Ok(()),
            _ => self.queue_delete(object.segment_id, &key),
        }
    }
}

/// Claims a log that was opened while the bucket was out of reach. A log that others went
/// on with meanwhile stops.
fn claim_open_log(cold: &ColdTier, store: &Store) -> Result<Claim> {
    let open = OpenLog { cold, store };
    let claimed = cold.take_over(store.identity(), store.storage(), store.clock(), &open);
    let claim = claimed.inspect_err(|error| {
        let is_final = matches!(
            error,
            AofError::NameTaken { .. } | AofError::Diverged(_) | AofError::Fenced { .. }
        );
        if is_final {
            store.fence(error);
        }
    })?;
    store.cold().writer.hold(claim.clone());
    Ok(claim)
}

/// Objects that should be there and are not: the segments are uploaded again, if there is
/// another copy.
fn forget_missing(cold: &ColdTier, store: &Store, claim: &Claim) -> Result<()> {
    let standing = claim.view.standing();
    let len_of = |id: SegmentId, epoch: u32| {
        standing.iter().find(|o| (o.segment_id, o.epoch) == (id, epoch)).map(|o| o.len)
    };
    for entry in store.table().snapshot() {
        let copies = entry.copies();
        let id = entry.meta.segment_id;
        let Some(object) = copies.cold.as_ref().filter(|_| entry.damage.is_none()) else {
            continue;
        };
        let is_there = len_of(id, object.epoch) == Some(object.len());
        // Before the start of the log nothing needs to be there.
        if is_there || id < claim.view.start() {
            continue;
        }
        store.cold().note_missing();
        let key = cold.key(store.stream_id(), id, object.epoch);
        tracing::error!(segment = id.as_u64(), key, "an archived segment is not in the bucket");
        match store.apply(&Change::Forget(id)).map(drop) {
            // It may come back, from a backup of the bucket or by its versions.
            Err(AofError::LastCopy(_)) => {}
            lost => lost?,
        }
    }
    Ok(())
}

/// Objects that the manifest names and the bucket does not hold, of segments that are not
/// part of the log any more. A manifest that came back from the bucket ends with the last
/// chunk that was uploaded: what was deleted afterwards it never heard of, and nobody else
/// would record it again.
fn record_deleted(cold: &ColdTier, store: &Store, claim: &Claim) -> Result<()> {
    let is_gone = |id: SegmentId, key: &str| {
        let Some(epoch) = ColdKey::parse(key).map(|key| key.epoch()) else { return false };
        // Those of a prefix that the log had before are out of reach.
        store.table().find(id.as_u32()).is_none()
            && cold.key(store.stream_id(), id, epoch) == key
            && !claim.view.holds(id, epoch)
    };
    let named = store.look_at_manifest(|index| {
        let held = index.segments().filter_map(|s| Some((s.segment_id, s.cold_key.clone()?)));
        let begun = index.pending_uploads().map(|upload| (upload.segment_id, upload.key.clone()));
        held.chain(begun).filter(|(id, key)| is_gone(*id, key)).collect::<Vec<_>>()
    });
    for (id, key) in named.unwrap_or_default() {
        store.tell_tiers(id, 0, ManifestEvent::Tier2Deleted { key: &key }, false)?;
    }
    Ok(())
}

/// Another writer cut the log while this directory slept: it begins there, too.
fn cut(store: &Store, start: SegmentId) -> Result<()> {
    let entries = store.table().snapshot();
    let first = entries.iter().find(|entry| entry.meta.segment_id >= start);
    let is_behind = entries.first().is_some_and(|entry| entry.meta.segment_id < start);
    match first.filter(|_| is_behind) {
        Some(first) => store.owner()?.trim_before(first.meta.first_offset),
        None => Ok(()),
    }
}

/// A log that is open, and claimed only now.
struct OpenLog<'a> {
    cold: &'a ColdTier,
    store: &'a Store,
}

impl Claimant for OpenLog<'_> {
    fn last(&self) -> Result<Option<LastClaim>> {
        self.store.layout().load_last_claim(self.store.storage())
    }

    fn remember(&self, claim: LastClaim) -> Result<()> {
        self.store.layout().store_last_claim(self.store.storage(), claim)
    }

    fn unknown(&self, objects: Vec<ArchivedObject>, is_alone: bool) -> Result<Vec<ArchivedObject>> {
        let earliest = self.store.table().first().map(|entry| entry.meta.segment_id);
        let is_unknown = |object: &ArchivedObject| {
            let entry = self.store.table().find(object.segment_id.as_u32());
            let known = entry.and_then(|entry| entry.copies().cold);
            let is_known = known.is_some_and(|cold| cold.epoch >= object.epoch);
            // What this directory let go does not come back, unless another writer kept it since.
            let is_trimmed = is_alone && earliest.is_some_and(|first| object.segment_id < first);
            !is_known && !is_trimmed
        };
        Ok(objects.into_iter().filter(is_unknown).collect())
    }

    fn agree(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()> {
        let (store, summary) = (self.store, &index.summary);
        let archived = SealedInfo::from(&summary.footer());
        let entry = store.table().find(object.segment_id.as_u32());
        let sealed = entry.as_ref().and_then(|entry| entry.sealed_info());
        if sealed.is_some_and(|info| info.is_same_content(&archived)) {
            return Ok(());
        }
        let appended = store.owner()?.appended_count();
        if appended <= summary.first_offset {
            // Nothing contradicts it, but an open log does not take up what comes behind it.
            let path = store.layout().root().to_owned();
            let writer = "another writer while the object store was out of reach; open it again";
            return Err(AofError::Fenced { path, writer: writer.into() });
        }
        let here = format!("records up to {}", appended.saturating_sub(1));
        Err(diverged(store.layout(), &self.cold.url().to_string(), object, index, &here))
    }

    fn adopt(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()> {
        let id = object.segment_id;
        let key = self.cold.key(self.store.stream_id(), id, object.epoch);
        let object = StoredObject { key, etag: String::new(), epoch: object.epoch };
        self.store.adopt_object(id, index, object)
    }

    fn cut(&self, start: SegmentId, _goes: bool) -> Result<()> {
        // Those that were archived go once the log is claimed.
        let entries = self.store.table().snapshot();
        let mut before = entries.iter().filter(|entry| entry.meta.segment_id < start);
        let Some(entry) = before.find(|entry| entry.copies().cold.is_none()) else {
            return Ok(());
        };
        let (layout, url) = (&self.store.layout(), self.cold.url().to_string());
        let (offset, id) = (entry.meta.first_offset, entry.meta.segment_id);
        Err(before_start(layout, &url, offset, id, start))
    }

    fn refuse(&self, _object: &ArchivedObject, error: AofError) {
        tracing::warn!(%error, "left aside");
    }
}
