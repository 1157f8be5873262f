//! What a manifest must hold: the plain list of what was recorded, and how much of it
//! was promised.

use crate::format::SegmentId;
use crate::format::manifest::{ManifestEvent, ManifestRecord, ReasonCode};
use crate::manifest::writer::is_news;
use crate::manifest::{ManifestIndex, PlacedRecord};

/// Deterministic randomness, so that a failing seed fails again.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(super) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

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
        let segment = SegmentId::from_u64(rng.below(next_segment + 2));
        let key = format!("cold/{:016x}/{}", 0xE_u64, segment);
        let number = rng.next();
        let small = number as u32;
        let fixed = match rng.below(12) {
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
            7 => return (segment, Self::Keyed(rng.below(5), key)),
            8 => ManifestEvent::HydrationStarted { source_tier: 2 },
            _ => return (segment, Self::Custom(blob(rng))),
        };
        (segment, Self::Fixed(fixed))
    }
}

/// Mostly small, sometimes a good part of a chunk, seldom more than one.
fn blob(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(20) {
        0 => 16_000 + rng.below(49_000),
        1..6 => 2_000 + rng.below(5_000),
        _ => 1 + rng.below(400),
    };
    rng.bytes(len as usize)
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
    pub(super) fn settle(&mut self, count: u64) {
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
