//! Records of any type and content, for tests here and in the room above.

use proptest::prelude::*;

use super::{ManifestEvent, ManifestRecord, ReasonCode};
use crate::format::SegmentId;

/// Types that a record can have, the unknown ones taken together.
pub(crate) const KINDS: u16 = 17;

/// A record with everything it borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedRecord {
    pub(crate) flags: u16,
    pub(crate) segment_id: u64,
    pub(crate) logical_offset: u64,
    pub(crate) timestamp_ms: u64,
    /// Below 16 the record type, otherwise an unknown one.
    pub(crate) kind: u16,
    pub(crate) numbers: [u64; 4],
    pub(crate) bit: bool,
    pub(crate) key: String,
    pub(crate) etag: String,
    pub(crate) blob: Vec<u8>,
}

impl OwnedRecord {
    pub(crate) fn record(&self) -> ManifestRecord<'_> {
        ManifestRecord {
            flags: self.flags,
            segment_id: SegmentId::from_u64(self.segment_id),
            logical_offset: self.logical_offset,
            timestamp_ms: self.timestamp_ms,
            event: self.event(),
        }
    }

    pub(crate) fn event(&self) -> ManifestEvent<'_> {
        let [a, b, c, d] = self.numbers;
        let (key, etag, reason) = (&*self.key, &*self.etag, ReasonCode(b as u32));
        match self.kind {
            0 => ManifestEvent::SegmentOpened { base_offset: a, epoch: b as u32 },
            1 => ManifestEvent::SealSegment {
                durable_bytes: a,
                segment_crc64: b,
                ext_id: c,
                coordinator_watermark: d,
                flush_failure: self.bit,
            },
            2 => ManifestEvent::CompressionStarted { job_id: b as u32 },
            3 => ManifestEvent::CompressionDone { compressed_bytes: a, dictionary_id: b as u32 },
            4 => ManifestEvent::CompressionFailed { reason },
            5 => ManifestEvent::UploadStarted { key },
            6 => ManifestEvent::UploadDone { key, etag },
            7 => ManifestEvent::UploadFailed { key, reason },
            8 => ManifestEvent::Tier2DeleteQueued { key },
            9 => ManifestEvent::Tier2Deleted { key },
            10 => ManifestEvent::HydrationStarted { source_tier: a },
            11 => ManifestEvent::HydrationDone { resident_bytes: a },
            12 => ManifestEvent::HydrationFailed { reason },
            13 => ManifestEvent::LocalEvicted { reclaimed_bytes: a },
            14 => ManifestEvent::SnapshotMarker { chunk_index: a, chunk_offset: b, snapshot_id: c },
            15 => ManifestEvent::CustomEvent { schema_id: b as u32, blob: &self.blob },
            record_type => ManifestEvent::Unknown { record_type, payload: &self.blob },
        }
    }

    #[allow(clippy::unwrap_used)]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.record().encode(&mut bytes).unwrap();
        bytes
    }
}

prop_compose! {
    /// Any record at all.
    pub(crate) fn any_record()(
        flags in any::<u16>(),
        header in any::<(u64, u64, u64)>(),
        kind in prop_oneof![0..KINDS, 16u16..],
        numbers in any::<[u64; 4]>(),
        bit in any::<bool>(),
        key in "\\PC{0,40}",
        etag in "\\PC{0,20}",
        blob in prop::collection::vec(any::<u8>(), 1..90),
    ) -> OwnedRecord {
        let (segment_id, logical_offset, timestamp_ms) = header;
        OwnedRecord {
            flags, segment_id, logical_offset, timestamp_ms, kind, numbers, bit, key, etag, blob,
        }
    }
}
