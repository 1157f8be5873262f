//! Random histories of a manifest, and a model of what they add up to that does
//! everything the slow and obvious way.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{ManifestIndex, UNRESOLVED_BYTES_MAX, UNRESOLVED_COUNT_MAX};
use crate::format::SegmentId;
use crate::format::manifest::arbitrary::{KINDS, OwnedRecord};
use crate::format::manifest::{
    FoldCounts, ManifestEvent, ManifestSegment, PendingDelete, PendingUpload, ReasonCode,
};

const KEYS: [&str; 6] = [
    "s/0000000000000001/00000000000000000003-00000000.zst",
    "s/0000000000000001/00000000000000000004-00000000.zst",
    "",
    "x",
    "s/manifest/0000000000000001/00000000000000000003.mlog",
    "manifest/0000000000000001/00000000000000000004.mlog",
];

/// The keys of [`KEYS`] that are those of manifest chunks.
fn is_chunk_key(key: &str) -> bool {
    key.ends_with(".mlog")
}

/// Histories in which ids grow as a writer's do, with everything a writer would not do
/// mixed in: skipped ids, segments opened again, records about segments that are not yet
/// or no longer there.
pub(crate) fn histories(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<OwnedRecord>> {
    // Opening and evicting more often than the rest, so that segments come and go.
    let kind = prop_oneof![3 => Just(0u16), 3 => Just(13u16), 6 => 0..KINDS];
    let step = (kind, any::<u8>(), 0..KEYS.len(), any::<[u8; 4]>(), any::<bool>(), any::<u16>());
    prop::collection::vec(step, len).prop_map(|steps| {
        let mut next_id = 0;
        steps
            .into_iter()
            .enumerate()
            .map(|(at, (kind, pick, key, numbers, bit, flags))| OwnedRecord {
                flags: if kind == 16 { flags } else { 0 },
                segment_id: pick_segment(kind, pick, &mut next_id),
                logical_offset: u64::from(numbers[3]),
                timestamp_ms: 1_000 + at as u64,
                kind,
                // Few values, so that a segment is opened again as it was.
                numbers: numbers.map(|n| u64::from(n % 3)),
                bit,
                key: KEYS[key].into(),
                etag: format!("etag{}", numbers[2]),
                blob: vec![numbers[2]; 1 + usize::from(numbers[3])],
            })
            .collect()
    })
}

fn pick_segment(kind: u16, pick: u8, next_id: &mut u64) -> u64 {
    let older = next_id.saturating_sub(u64::from(pick % 6));
    match (kind, pick) {
        (0, 0..40) => older,
        (0, 40..60) => {
            // Beyond what the table bridges, and within.
            *next_id += u64::from(pick - 39) + 1;
            *next_id - 1
        }
        (0, _) => {
            *next_id += 1;
            *next_id - 1
        }
        (_, 0..25) => *next_id + u64::from(pick % 3),
        (_, 25..30) => u64::MAX - u64::from(pick % 2),
        _ => older,
    }
}

/// Folds all of a history.
pub(crate) fn fold_all(index: &mut ManifestIndex, history: &[OwnedRecord], from: usize) {
    for (ordinal, owned) in history.iter().enumerate().skip(from) {
        index.fold(ordinal as u64, &owned.record());
    }
}

/// What a history adds up to, told without looking at the index.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Model {
    segments: BTreeMap<u64, ManifestSegment>,
    uploads: BTreeMap<String, PendingUpload>,
    deletes: BTreeMap<String, PendingDelete>,
    waiting: Vec<(u64, OwnedRecord)>,
    opened_end: u64,
    counts: FoldCounts,
}

impl Model {
    pub(crate) fn of(history: &[OwnedRecord]) -> Self {
        let mut model = Self::default();
        for (ordinal, owned) in history.iter().enumerate() {
            model.add(ordinal as u64, owned);
        }
        model
    }

    fn add(&mut self, ordinal: u64, owned: &OwnedRecord) {
        let id = owned.segment_id;
        let is_object = (5..10).contains(&owned.kind);
        if is_object {
            self.add_object(ordinal, owned);
        }
        match owned.kind {
            0 => self.open(ordinal, owned),
            14 | 15 => {}
            16.. => {
                self.counts.unknown_records += 1;
                self.counts.unknown_flags |= owned.flags;
            }
            _ if is_object && is_chunk_key(&owned.key) => {}
            _ if self.segments.contains_key(&id) => self.change(ordinal, owned),
            _ if id < self.opened_end => self.counts.late_records += 1,
            _ => self.wait(ordinal, owned),
        }
    }

    fn wait(&mut self, ordinal: u64, owned: &OwnedRecord) {
        let bytes: usize = self.waiting.iter().map(|(_, owned)| owned.encode().len()).sum();
        if self.waiting.len() < UNRESOLVED_COUNT_MAX
            && bytes + owned.encode().len() <= UNRESOLVED_BYTES_MAX
        {
            self.waiting.push((ordinal, owned.clone()));
        } else {
            self.counts.unresolved_dropped += 1;
        }
    }

    fn open(&mut self, ordinal: u64, owned: &OwnedRecord) {
        let id = owned.segment_id;
        let (base_offset, epoch) = (owned.numbers[0], owned.numbers[1] as u32);
        self.opened_end = self.opened_end.max(id.saturating_add(1));
        let is_same =
            |known: &ManifestSegment| (known.base_offset, known.epoch) == (base_offset, epoch);
        if !self.segments.get(&id).is_some_and(is_same) {
            let mut new = ManifestSegment::opened(SegmentId::from_u64(id), base_offset, epoch);
            new.opened_at_ms = owned.timestamp_ms;
            self.segments.insert(id, new);
        }
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.hot = true;
            segment.last_record = ordinal;
            segment.updated_at_ms = owned.timestamp_ms;
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (waiting_ordinal, waiting) in waiting {
            match self.segments.get_mut(&id) {
                // Only the end counts: it is forgotten after the last of them, if at all.
                Some(segment) if waiting.segment_id == id => change_segment(segment, &waiting),
                _ => self.waiting.push((waiting_ordinal, waiting)),
            }
        }
        self.forget(id);
    }

    fn change(&mut self, ordinal: u64, owned: &OwnedRecord) {
        if let Some(segment) = self.segments.get_mut(&owned.segment_id) {
            segment.last_record = ordinal;
            segment.updated_at_ms = owned.timestamp_ms;
            change_segment(segment, owned);
        }
        self.forget(owned.segment_id);
    }

    fn forget(&mut self, id: u64) {
        self.segments.retain(|&known, segment| {
            let is_somewhere =
                segment.hot || segment.warm_bytes.is_some() || segment.cold_key.is_some();
            known != id || is_somewhere
        });
    }

    fn add_object(&mut self, ordinal: u64, owned: &OwnedRecord) {
        let key = owned.key.clone();
        let started = PendingUpload {
            key: key.clone(),
            segment_id: SegmentId::from_u64(owned.segment_id),
            logical_offset: owned.logical_offset,
            started_at_ms: owned.timestamp_ms,
            updated_at_ms: 0,
            last_record: 0,
            attempts: 0,
            failure: None,
        };
        if matches!(owned.kind, 8 | 9) {
            self.uploads.remove(&key);
        }
        match owned.event() {
            ManifestEvent::UploadDone { .. } => drop(self.uploads.remove(&key)),
            ManifestEvent::Tier2Deleted { .. } => drop(self.deletes.remove(&key)),
            ManifestEvent::Tier2DeleteQueued { .. } => {
                let queued = PendingDelete {
                    key: key.clone(),
                    segment_id: SegmentId::from_u64(owned.segment_id),
                    queued_at_ms: owned.timestamp_ms,
                    last_record: 0,
                };
                self.deletes.entry(key).or_insert(queued).last_record = ordinal;
            }
            event => {
                let failure = match event {
                    ManifestEvent::UploadFailed { reason, .. } => Some(reason),
                    _ => None,
                };
                let upload = self.uploads.entry(key).or_insert(started);
                upload.attempts += u32::from(failure.is_none());
                upload.failure = failure;
                upload.updated_at_ms = owned.timestamp_ms;
                upload.last_record = ordinal;
            }
        }
    }

    /// Panics with the difference where there is one.
    pub(crate) fn check(&self, index: &ManifestIndex) {
        assert!(index.segments().eq(self.segments.values()), "{index:#?}\n{self:#?}");
        assert_eq!(index.segment_count(), self.segments.len());
        for id in 0..self.opened_end.min(2_000) {
            assert_eq!(index.get(SegmentId::from_u64(id)), self.segments.get(&id));
        }
        assert!(index.pending_uploads().eq(self.uploads.values()), "{index:#?}\n{self:#?}");
        assert!(index.pending_deletes().eq(self.deletes.values()), "{index:#?}\n{self:#?}");
        let mut waiting: Vec<_> = self
            .waiting
            .iter()
            .map(|(at, owned)| (owned.segment_id, *at, owned.encode()))
            .collect();
        waiting.sort();
        let found: Vec<_> = index
            .unresolved()
            .map(|record| (record.segment_id.as_u64(), record.ordinal, record.bytes.clone()))
            .collect();
        assert_eq!(found, waiting);
        assert_eq!(index.opened_end(), self.opened_end);
        assert_eq!(*index.counts(), self.counts);
    }
}

/// What the table of events says about a segment.
fn change_segment(segment: &mut ManifestSegment, owned: &OwnedRecord) {
    match owned.event() {
        ManifestEvent::SealSegment {
            durable_bytes: bytes,
            segment_crc64,
            ext_id,
            coordinator_watermark,
            flush_failure,
        } => {
            segment.durable_bytes = Some(bytes);
            segment.segment_crc64 = Some(segment_crc64);
            segment.ext_id = Some(ext_id);
            segment.watermark = Some(coordinator_watermark);
            segment.flush_failure = Some(flush_failure);
            segment.sealed_at_ms = Some(owned.timestamp_ms);
            segment.resident_bytes = if segment.hot { bytes } else { segment.resident_bytes };
        }
        ManifestEvent::CompressionStarted { job_id } => segment.compression_job = Some(job_id),
        ManifestEvent::CompressionDone { compressed_bytes, dictionary_id } => {
            (segment.warm_bytes, segment.dictionary_id) =
                (Some(compressed_bytes), Some(dictionary_id));
            (segment.compression_job, segment.compression_failure) = (None, None);
        }
        ManifestEvent::CompressionFailed { reason: ReasonCode(reason) } => {
            (segment.compression_job, segment.compression_failure) = (None, Some(reason));
        }
        ManifestEvent::UploadDone { key, etag } => {
            (segment.cold_key, segment.cold_etag) = (Some(key.into()), Some(etag.into()));
            segment.upload_failure = None;
        }
        ManifestEvent::UploadFailed { reason, .. } => segment.upload_failure = Some(reason.0),
        ManifestEvent::Tier2Deleted { key } if segment.cold_key.as_deref() == Some(key) => {
            (segment.cold_key, segment.cold_etag) = (None, None);
        }
        ManifestEvent::HydrationStarted { source_tier } => {
            segment.hydration_source = Some(source_tier);
        }
        ManifestEvent::HydrationDone { resident_bytes } => {
            (segment.hot, segment.resident_bytes) = (true, resident_bytes);
            (segment.hydration_source, segment.hydration_failure) = (None, None);
        }
        ManifestEvent::HydrationFailed { reason } => {
            (segment.hydration_source, segment.hydration_failure) = (None, Some(reason.0));
        }
        ManifestEvent::LocalEvicted { reclaimed_bytes } => {
            segment.reclaimed_bytes += reclaimed_bytes;
            match segment.hot {
                true => (segment.hot, segment.resident_bytes) = (false, 0),
                false => (segment.warm_bytes, segment.dictionary_id) = (None, None),
            }
        }
        _ => {}
    }
}
