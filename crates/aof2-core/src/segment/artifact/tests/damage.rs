//! Damage is reported, with its place, and hides nothing else.

use std::path::Path;

use super::fixture::*;
use crate::error::{AofError, Damage};
use crate::format::SegmentFormat;
use crate::io::Storage;
use crate::io::sim::SimStorage;
use crate::segment::artifact::{Artifact, hydrate};

fn damage(error: AofError) -> Damage {
    match error {
        AofError::Corrupt(damage) => *damage,
        other => panic!("{other}"),
    }
}

/// Whether opening and reading all frames, and going through everything, both work.
fn reads_and_verifies(bytes: Vec<u8>) -> (bool, bool) {
    let Ok(artifact) = open_bytes(bytes) else { return (false, false) };
    let frames = 0..artifact.index().frames.len();
    (artifact.windows(frames).is_ok(), artifact.verify(&mut |_| {}).is_ok())
}

/// Every bit of an artifact, flipped: reading it, or verifying it, says so. Frames prove
/// themselves when they are read; only the footer waits for verify.
///
/// What goes unnoticed changes nothing: it lies in a zstd frame that every decoder still
/// decompresses to the same bytes (a descriptor bit that the format leaves unused, a
/// table of codes that no symbol needs). Behind the frames every bit counts.
#[test]
fn every_flipped_bit_shows_or_changes_nothing() {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let artifact = Fixture::mixed(format).artifact(&SMALL);
        let index = open_bytes(artifact.clone()).unwrap().index().clone();
        let tail_start = index.footer.compressed_end() as usize;
        let footer = index.footer.compressed_offset as usize..tail_start;
        // In the seek table: the checksum of the last entry but one.
        let footer_checksum = artifact.len() - 9 - 12 - 4..artifact.len() - 9 - 12;
        let stored = zstd::stream::decode_all(&*artifact).unwrap();
        let mut unnoticed = 0;
        for at in 0..artifact.len() {
            for bit in 0..8 {
                let mut bytes = artifact.clone();
                bytes[at] ^= 1 << bit;
                let flipped = || format!("bit {bit} of byte {at} of {}", artifact.len());
                let (reads, verifies) = reads_and_verifies(bytes.clone());
                if verifies {
                    assert!(reads && at < tail_start, "{} does not show", flipped());
                    let decoded = zstd::stream::decode_all(&*bytes).unwrap();
                    assert!(decoded == stored, "{} changes the segment", flipped());
                    unnoticed += 1;
                } else if reads {
                    let is_footers = footer.contains(&at) || footer_checksum.contains(&at);
                    assert!(is_footers, "{} shows only to verify", flipped());
                }
            }
        }
        let frame_bits = tail_start * 8;
        assert!(unnoticed * 20 < frame_bits, "{unnoticed} of {frame_bits} bits go unnoticed");
    }
}

#[test]
fn damage_names_artifact_place_and_records_and_hides_nothing_else() {
    let fixture = Fixture::mixed(SegmentFormat::Full);
    let mut bytes = fixture.artifact(&SMALL);
    let intact = open_bytes(bytes.clone()).unwrap();
    assert!(intact.index().frames.len() >= 3);
    let frame = intact.index().frames[1];
    let next = intact.index().frames[2];
    bytes[frame.compressed_offset as usize + 100] ^= 1;
    let artifact = open_bytes(bytes).unwrap();
    let all = 0..artifact.index().frames.len();
    let found = [
        damage(artifact.windows(all.clone()).unwrap_err()),
        damage(artifact.windows(1..2).unwrap_err()),
        damage(artifact.verify(&mut |_| {}).unwrap_err()),
        damage(hydrate(&SimStorage::new(), &artifact, Path::new("/")).unwrap_err()),
    ];
    for damage in found {
        assert_eq!(damage.path, Path::new("memory.zst"));
        assert_eq!(damage.offset, frame.compressed_offset);
        assert_eq!(damage.records, frame.first_offset..next.first_offset);
    }
    for i in all.filter(|i| *i != 1) {
        assert_eq!(artifact.windows(i..i + 1).unwrap().len(), 1);
    }
}

/// All frames are intact but are not the segment that the index promises: two frames
/// of the same length changed places, each with its own checksum.
#[test]
fn frames_of_another_segment_do_not_become_a_segment_file() {
    let items = [Item::Record { len: 3_000, timestamp_ms: 1, is_random: true }; 4];
    let fixture = Fixture::new(SegmentFormat::Full, &items);
    let bytes = fixture.artifact(&SMALL);
    let intact = open_bytes(bytes.clone()).unwrap();
    let mut index = intact.index().clone();
    let (one, two) = (index.frames[1], index.frames[2]);
    assert_eq!((one.len, one.compressed_len), (two.len, two.compressed_len));
    index.frames[1].checksum = two.checksum;
    index.frames[2].checksum = one.checksum;
    let part = |frame: &crate::format::ArtifactFrame| {
        bytes[frame.compressed_offset as usize..frame.compressed_end() as usize].to_vec()
    };
    let forged = [
        part(&index.frames[0]),
        part(&two),
        part(&one),
        part(&index.frames[3]),
        part(&index.footer),
        index.encode_tail(),
    ]
    .concat();
    let artifact = open_bytes(forged).unwrap();
    let sim = SimStorage::new();
    sim.create_dir_all(Path::new(SEGMENTS)).unwrap();
    for error in [
        artifact.verify(&mut |_| {}).unwrap_err(),
        hydrate(&sim, &artifact, Path::new(SEGMENTS)).unwrap_err(),
    ] {
        let damage = damage(error);
        assert!(damage.reason.contains("segment checksum"), "{}", damage.reason);
        assert_eq!(damage.records, 1_000..1_004);
    }
    assert!(sim.list(Path::new(SEGMENTS)).unwrap().is_empty());
}

#[test]
fn a_file_that_is_no_artifact_is_refused() {
    let artifact = Fixture::mixed(SegmentFormat::Full).artifact(&SMALL);
    let cuts = (0..artifact.len()).step_by(97).map(|cut| artifact[..cut].to_vec());
    for bytes in cuts.chain([vec![0; 100_000], b"hello".to_vec()]) {
        let found = damage(open_bytes(bytes).unwrap_err());
        assert_eq!(found.records, 0..u64::MAX);
    }
    let mut later = artifact.clone();
    let at = later.windows(8).position(|w| w == b"MRAW2FOA").unwrap();
    later[at + 8] = 9;
    // With the checksum of this version it is this version, damaged.
    assert!(matches!(open_bytes(later.clone()), Err(AofError::Corrupt(_))));
    let len = u32::from_le_bytes(later[at - 4..at].try_into().unwrap()) as usize;
    let body = crate::format::crc64(&later[at..at + len - 8]);
    later[at + len - 8..at + len].copy_from_slice(&body.to_le_bytes());
    assert!(matches!(open_bytes(later), Err(AofError::Foreign { .. })));
}

/// A source that gives less than it was asked for does not get away with it.
#[test]
fn short_reads_are_errors() {
    #[derive(Debug)]
    struct Short(Vec<u8>);
    impl crate::segment::artifact::ArtifactSource for Short {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_at(&self, offset: u64, len: usize) -> crate::Result<bytes::Bytes> {
            Ok(self.0[offset as usize..offset as usize + len - 1].to_vec().into())
        }
        fn name(&self) -> &Path {
            Path::new("short")
        }
    }
    let bytes = Fixture::mixed(SegmentFormat::Full).artifact(&SMALL);
    let index = open_bytes(bytes.clone()).unwrap().index().clone();
    let source = std::sync::Arc::new(Short(bytes));
    assert!(matches!(Artifact::open(source.clone()), Err(AofError::Io { .. })));
    let artifact = Artifact::with_index(source, index);
    assert!(matches!(artifact.windows(0..1), Err(AofError::Io { .. })));
    assert!(matches!(artifact.verify(&mut |_| {}), Err(AofError::Io { .. })));
}
