//! Before the first upload: the log is claimed, nothing of an earlier crash is left, and
//! what we believe to be in the bucket is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::stream::StreamTiers;
use crate::error::{AofError, Result};
use crate::format::{ArtifactIndex, LastClaim, SegmentId};
use crate::read::ArchivedObject;
use crate::store::ColdObject;
use crate::store::{Claim, Claimant, ColdTier, before_start, diverged};
use crate::write::{RetentionPolicy, Stream};

/// What must come before the first upload, by whoever comes first.
pub(super) fn reconcile_once(
    cold: &ColdTier,
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
) -> Result<()> {
    let _one_at_a_time = tiers.reconciling.lock();
    if tiers.is_reconciled() {
        return Ok(());
    }
    let claim = match tiers.writer.claim() {
        Some(claim) => claim,
        None => claim_open_log(cold, stream, tiers)?,
    };
    let stream_id = stream.identity.stream_id;
    let aborted = cold.abort_unfinished(stream_id)?;
    if aborted > 0 {
        tracing::info!(aborted, "unfinished uploads of an earlier writer were given up");
    }
    forget_missing(cold, stream, tiers, &claim)?;
    stream.check_manifest_uploads()?;
    for object in claim.view.leftovers() {
        queue_delete(cold, stream, &object)?;
    }
    cut(stream, claim.view.start())?;
    tiers.set_reconciled();
    Ok(())
}

/// Claims a log that was opened while the bucket was out of reach. A log that others went
/// on with meanwhile stops.
fn claim_open_log(cold: &ColdTier, stream: &Arc<Stream>, tiers: &StreamTiers) -> Result<Claim> {
    let open = OpenLog { cold, stream };
    let claimed = cold.take_over(&stream.identity, &*stream.storage, &*stream.clock, &open);
    let claim = claimed.inspect_err(|error| {
        let is_final = matches!(
            error,
            AofError::NameTaken { .. } | AofError::Diverged(_) | AofError::Fenced { .. }
        );
        if is_final {
            stream.fence(error);
        }
    })?;
    tiers.writer.hold(claim.clone());
    Ok(claim)
}

/// Objects that should be there and are not: the segments are uploaded again, if there is
/// another copy.
fn forget_missing(
    cold: &ColdTier,
    stream: &Arc<Stream>,
    tiers: &StreamTiers,
    claim: &Claim,
) -> Result<()> {
    let standing = claim.view.standing();
    let len_of = |id: SegmentId, epoch: u32| {
        standing.iter().find(|o| (o.segment_id, o.epoch) == (id, epoch)).map(|o| o.len)
    };
    for entry in stream.table.snapshot() {
        let copies = entry.away_copies();
        let id = entry.meta.segment_id;
        let Some(artifact) = copies.cold.as_ref().filter(|_| entry.damage.is_none()) else {
            continue;
        };
        let is_there = len_of(id, copies.cold_epoch) == Some(artifact.index().artifact_len());
        // Before the start of the log nothing needs to be there.
        if is_there || id < claim.view.start() {
            continue;
        }
        tiers.counters.cold_missing.fetch_add(1, Ordering::Relaxed);
        let key = cold.key(stream.identity.stream_id, id, copies.cold_epoch);
        tracing::error!(segment = id.as_u64(), key, "an archived segment is not in the bucket");
        match stream.lose_cold(id, &key) {
            // It may come back, from a backup of the bucket or by its versions.
            Err(AofError::LastCopy(_)) => {}
            lost => lost?,
        }
    }
    Ok(())
}

/// Writes down that an object that nobody reads is to be deleted.
pub(super) fn queue_delete(
    cold: &ColdTier,
    stream: &Stream,
    object: &ArchivedObject,
) -> Result<()> {
    let key = cold.key(stream.identity.stream_id, object.segment_id, object.epoch);
    let is_queued = stream.look_at_manifest(|index| index.pending_deletes().any(|d| d.key == key));
    match is_queued {
        Some(true) => Ok(()),
        _ => stream.queue_delete(object.segment_id, &key),
    }
}

/// Another writer cut the log while this directory slept: it begins there, too.
fn cut(stream: &Stream, start: SegmentId) -> Result<()> {
    let entries = stream.table.snapshot();
    let first = entries.iter().find(|entry| entry.meta.segment_id >= start);
    let is_behind = entries.first().is_some_and(|entry| entry.meta.segment_id < start);
    let Some(first) = first.filter(|_| is_behind) else { return Ok(()) };
    let before_offset = Some(first.meta.first_offset);
    stream.apply_retention(&RetentionPolicy { before_offset, ..Default::default() }).map(drop)
}

/// A log that is open, and claimed only now.
struct OpenLog<'a> {
    cold: &'a ColdTier,
    stream: &'a Arc<Stream>,
}

impl Claimant for OpenLog<'_> {
    fn last(&self) -> Result<Option<LastClaim>> {
        self.stream.layout.load_last_claim(&*self.stream.storage)
    }

    fn remember(&self, claim: LastClaim) -> Result<()> {
        self.stream.layout.store_last_claim(&*self.stream.storage, claim)
    }

    fn unknown(&self, objects: Vec<ArchivedObject>, is_alone: bool) -> Result<Vec<ArchivedObject>> {
        let earliest = self.stream.table.first().map(|entry| entry.meta.segment_id);
        let is_unknown = |object: &ArchivedObject| {
            let entry = self.stream.table.find(object.segment_id.as_u32());
            let known = entry.map(|entry| entry.away_copies());
            let is_known = known.is_some_and(|c| c.cold.is_some() && c.cold_epoch >= object.epoch);
            // What this directory let go stays away, unless another writer kept it since.
            let is_trimmed = is_alone && earliest.is_some_and(|first| object.segment_id < first);
            !is_known && !is_trimmed
        };
        Ok(objects.into_iter().filter(is_unknown).collect())
    }

    fn agree(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()> {
        let (stream, summary) = (self.stream, &index.summary);
        let entry = stream.table.find(object.segment_id.as_u32());
        let sealed = entry.as_ref().and_then(|entry| entry.sealed_info());
        let is_same = sealed.is_some_and(|info| {
            (info.segment_crc64, info.record_count) == (summary.segment_crc64, summary.record_count)
        });
        if is_same {
            return Ok(());
        }
        if stream.appended.count() <= summary.first_offset {
            // Nothing contradicts it, but an open log does not take up what comes behind it.
            let path = stream.layout.root().to_owned();
            let writer = "another writer while the object store was out of reach; open it again";
            return Err(AofError::Fenced { path, writer: writer.into() });
        }
        let here = format!("records up to {}", stream.appended.count().saturating_sub(1));
        Err(diverged(&stream.layout, &self.cold.url().to_string(), object, index, &here))
    }

    fn adopt(&self, object: &ArchivedObject, index: &ArtifactIndex) -> Result<()> {
        let id = object.segment_id;
        let key = self.cold.key(self.stream.identity.stream_id, id, object.epoch);
        let object = ColdObject { key: &key, etag: "", epoch: object.epoch, index };
        self.stream.finish_upload(id, object)
    }

    fn cut(&self, start: SegmentId, _goes: bool) -> Result<()> {
        // Those that were archived go once the log is claimed.
        let entries = self.stream.table.snapshot();
        let mut before = entries.iter().filter(|entry| entry.meta.segment_id < start);
        let Some(entry) = before.find(|entry| entry.away_copies().cold.is_none()) else {
            return Ok(());
        };
        let (layout, url) = (&self.stream.layout, self.cold.url().to_string());
        let (offset, id) = (entry.meta.first_offset, entry.meta.segment_id);
        Err(before_start(layout, &url, offset, id, start))
    }

    fn refuse(&self, _object: &ArchivedObject, error: AofError) {
        tracing::warn!(%error, "left aside");
    }
}
