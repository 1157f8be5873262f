//! What the manifest missed: recorded when it is opened.

use super::State;
use super::record::compressed;
use super::record::evict;
use super::record::evict_warm;
use super::record::record_opened;
use crate::error::Result;
use crate::format::ColdKey;
use crate::format::SegmentId;
use crate::format::manifest::ManifestEvent;
use crate::format::manifest::ManifestSegment;
use crate::manifest::Manifest;
use crate::segment::SegmentMeta;
use crate::store::entry::SegmentEntry;
use crate::store::info::SealedInfo;
use crate::store::state::Store;

impl Store {
    /// Records what happened while nobody wrote the manifest, and makes it durable.
    pub(super) fn reconcile_files(
        &self,
        state: &mut State,
        manifest: Manifest,
    ) -> Result<Manifest> {
        let entries = self.table().snapshot();
        let unsealed = self.unsealed();
        let unnamed = unsealed.iter().find(|u| !u.is_named).map(|u| u.meta.segment_id);
        let present: Vec<_> = entries
            .iter()
            .filter(|e| Some(e.meta.segment_id) != unnamed && e.damage.is_none())
            .collect();
        let known: Vec<_> = manifest.with_index(|index| index.segments().cloned().collect());
        for segment in known.iter().filter(|segment| segment.hot) {
            let same = present.iter().any(|e| {
                e.meta.segment_id == segment.segment_id
                    && e.is_hot()
                    && e.meta.base_offset == segment.base_offset
                    && seal_agrees(e.sealed_info(), segment.durable_bytes, segment.segment_crc64)
            });
            if !same {
                let bytes = segment.durable_bytes.unwrap_or(0);
                let gone = ManifestEvent::LocalEvicted { reclaimed_bytes: bytes };
                manifest.record(segment.segment_id, bytes, gone)?;
            }
        }
        // Let go by retention, and the crash came before that was recorded.
        for segment in &known {
            let is_gone = present.iter().all(|e| e.meta.segment_id != segment.segment_id);
            if let Some(bytes) = segment.warm_bytes.filter(|_| is_gone) {
                evict_warm(&manifest, segment.segment_id, bytes)?;
            }
        }
        let is_known = |id: SegmentId| manifest.with_index(|index| index.get(id).cloned());
        for entry in &present {
            let known = is_known(entry.meta.segment_id).filter(|k| k.hot || !entry.is_hot());
            if known.is_none() {
                record_opened(&manifest, &entry.meta)?;
            }
            let is_recorded = known.as_ref().is_some_and(|k| k.durable_bytes.is_some());
            if let Some(info) = entry.sealed_info().filter(|_| !is_recorded) {
                let doubtful = state.doubtful.contains(&entry.meta.segment_id);
                self.record_sealed(&manifest, &entry.meta, info, doubtful)?;
            }
            reconcile_copies(
                &manifest,
                entry,
                known.as_ref(),
                &self.manifest_config().upload_prefix,
            )?;
        }
        let newest = present.last().map(|e| e.meta.segment_id);
        state.next_opened = newest.map_or(SegmentId::from_u64(0), SegmentId::next);
        manifest.commit()?;
        Ok(manifest)
    }

    pub(super) fn record_sealed(
        &self,
        manifest: &Manifest,
        meta: &SegmentMeta,
        info: &SealedInfo,
        flush_failure: bool,
    ) -> Result<()> {
        let sealed = ManifestEvent::SealSegment {
            durable_bytes: u64::from(info.durable_bytes),
            segment_crc64: info.segment_crc64,
            ext_id: info.ext_id,
            coordinator_watermark: self.owner()?.durable_count(),
            flush_failure,
        };
        manifest.record(meta.segment_id, meta.first_offset + info.record_count, sealed).map(drop)
    }
}

/// Records the copies in other tiers that the manifest does not know, and that there is
/// no segment file where it just learned of the segment.
pub(super) fn reconcile_copies(
    manifest: &Manifest,
    entry: &SegmentEntry,
    known: Option<&ManifestSegment>,
    prefix: &str,
) -> Result<()> {
    let id = entry.meta.segment_id;
    let copies = entry.copies();
    if let Some(warm) =
        copies.warm.as_ref().filter(|_| known.is_none_or(|k| k.warm_bytes.is_none()))
    {
        let done = compressed(warm.index().artifact_len());
        manifest.record(id, entry.meta.base_offset, done)?;
    }
    let key_of = |epoch: u32| ColdKey::new(prefix, entry.meta.stream_id, id, epoch);
    if let Some(cold) = &copies.cold
        && let Ok(key) = key_of(cold.epoch)
    {
        let key = key.to_string();
        if known.is_none_or(|k| k.cold_key.as_deref() != Some(&key)) {
            // Its tag was not kept; nothing depends on it.
            let done = ManifestEvent::UploadDone { key: &key, etag: "" };
            manifest.record(id, entry.meta.base_offset, done)?;
        }
    }
    if known.is_none() && !entry.is_hot() {
        evict(manifest, id, 0)?;
    }
    // The warm file is gone, and was not the last copy.
    if let Some(gone) = known.and_then(|k| k.warm_bytes)
        && copies.warm.is_none()
        && copies.cold.is_some()
    {
        evict_warm(manifest, id, gone)?;
    }
    Ok(())
}

/// Whether a recorded seal is the file's: not if a repair changed the file.
pub(super) fn seal_agrees(info: Option<&SealedInfo>, bytes: Option<u64>, crc: Option<u64>) -> bool {
    match (info, bytes) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(info), Some(bytes)) => {
            u64::from(info.durable_bytes) == bytes && Some(info.segment_crc64) == crc
        }
    }
}
