//! What a manifest must hold: the plain list of what was recorded, and how much of it
//! was promised.

use fastrand::Rng;

use crate::format::SegmentId;
use crate::format::manifest::{ManifestEvent, ManifestRecord, ReasonCode};
use crate::manifest::chunks::is_news;
use crate::manifest::{ManifestIndex, PlacedRecord};

/// An event that owns its texts.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Fixed(ManifestEvent<'static>),
    Keyed(u64, String),
    Custom(Vec<u8>),
}

impl Happening {
    pub(super) fn event(&self) -> ManifestEvent<'_> {
        match self {
            Self::Fixed(event) => *event,
            Self::Custom(blob) => ManifestEvent::CustomEvent { schema_id: 7, blob },
            Self::Keyed(0, key) => ManifestEvent::UploadStarted { key },
            Self::Keyed(1, key) => ManifestEvent::UploadDone { key, etag: "tag" },
            Self::Keyed(2, key) => {
                ManifestEvent::UploadFailed { key, reason: ReasonCode::UNAVAILABLE }
            }
            Self::Keyed(3, key) => ManifestEvent::Tier2DeleteQueued { key },
            Self::Keyed(_, key) => ManifestEvent::Tier2Deleted { key },
        }
    }

    /// Anything, about any segment, of any length.
    pub(super) fn any(rng: &mut Rng, next_segment: u64) -> (SegmentId, Self) {
        let segment = SegmentId::from_u64(rng.u64(..next_segment + 2));
        let key = format!("cold/{:016x}/{}", 0xE_u64, segment);
        let number = rng.u64(..);
        let small = number as u32;
        let fixed = match rng.u64(..12) {
            0 | 1 => ManifestEvent::SegmentOpened { base_offset: number, epoch: small % 3 },
            2 => ManifestEvent::SealSegment {
                durable_bytes: number,
                segment_crc64: number.rotate_left(7),
                ext_id: 3,
                coordinator_watermark: 4,
                flush_failure: number.is_multiple_of(2),
            },
            3 => ManifestEvent::CompressionStarted { job_id: small },
            4 => ManifestEvent::CompressionDone { compressed_bytes: number, dictionary_id: small },
            5 => ManifestEvent::HydrationDone { resident_bytes: number },
            6 => ManifestEvent::LocalEvicted { reclaimed_bytes: number },
            7 => return (segment, Self::Keyed(rng.u64(..5), key)),
            8 => ManifestEvent::HydrationStarted { source_tier: 2 },
            _ => return (segment, Self::Custom(blob(rng))),
        };
        (segment, Self::Fixed(fixed))
    }
}

/// Mostly small, sometimes a good part of a chunk, seldom more than one.
fn blob(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.u64(..20) {
        0 => 16_000 + rng.usize(..49_000),
        1..6 => 2_000 + rng.usize(..5_000),
        _ => 1 + rng.usize(..400),
    };
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

/// A record as it stands in a chunk.
pub(super) fn encode(record: &ManifestRecord<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes).unwrap();
    bytes
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// Every record by ordinal. Those that the manifest wrote about itself are known
    /// once they were read.
    pub(super) records: Vec<Option<Vec<u8>>>,
    /// Records below this were reported committed.
    pub(super) acked: u64,
}

impl Model {
    /// The record at this ordinal is the one that was recorded, or one of the
    /// manifest's own where those were.
    pub(super) fn check(&mut self, placed: &PlacedRecord<'_>) -> Result<(), String> {
        let ordinal = placed.ordinal;
        let found = encode(&placed.record);
        match self.records.get_mut(ordinal as usize) {
            None => Err(format!("record {ordinal} was never recorded")),
            Some(Some(expected)) if *expected == found => Ok(()),
            Some(Some(_)) => Err(format!("record {ordinal} is not what was recorded")),
            Some(unknown) if !is_news(&placed.record) => {
                *unknown = Some(found);
                Ok(())
            }
            Some(None) => Err(format!(
                "record {ordinal} is {}, not the manifest's own",
                placed.record.event.name()
            )),
        }
    }

    /// After a crash: the manifest kept `count` records; the others never existed.
    pub(super) fn keep(&mut self, count: u64) {
        self.records.truncate(count as usize);
        self.acked = count;
    }

    /// What the records add up to; `None` if not all are known.
    pub(super) fn index(&self) -> Option<ManifestIndex> {
        let mut index = ManifestIndex::new();
        for (ordinal, bytes) in self.records.iter().enumerate() {
            let (record, _) = ManifestRecord::decode(bytes.as_deref()?).unwrap();
            index.fold(ordinal as u64, &record);
        }
        Some(index)
    }
}
