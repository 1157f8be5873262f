//! What is compressed comes back, whole, as windows and as the segment file.

use std::path::Path;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::fixture::*;
use crate::error::AofError;
use crate::format::{SegmentFooter, SegmentFormat, crc64};
use crate::io::sim::SimStorage;
use crate::io::{OsStorage, Storage};
use crate::segment::artifact::frames::PIECE_LEN_MAX;
use crate::segment::artifact::stream::READ_LEN_MAX;
use crate::segment::artifact::{Artifact, ArtifactOptions, hydrate, write_artifact};

const FORMATS: [SegmentFormat; 2] = [SegmentFormat::Full, SegmentFormat::Compact];

/// Every promise about one segment and one way of compressing it.
fn check(fixture: &Fixture, options: &ArtifactOptions) {
    let (sim, written) = fixture.compress(options);
    let bytes = read_file(&sim, Path::new(WARM));
    assert_eq!(written.len, bytes.len() as u64);
    assert_eq!(written.crc64_nvme_of_artifact, crc64(&bytes));
    // Any zstd tool gets the segment back.
    assert_eq!(zstd::stream::decode_all(&*bytes).unwrap(), fixture.stored());
    let artifact = open_file(&sim);
    assert_eq!(*artifact.index(), written.index);
    assert_eq!(artifact.index().artifact_len(), written.len);
    assert_eq!(artifact.meta(), fixture.meta);
    check_summary(fixture, &artifact);
    check_frames(fixture, &artifact, options);
    check_lookups(fixture, &artifact);
    let mut done = 0;
    artifact.verify(&mut |bytes| done = bytes).unwrap();
    assert_eq!(done, fixture.durable_bytes as u64 + 64);
    sim.remove(&fixture.path()).unwrap();
    assert_eq!(hydrate(&sim, &artifact, Path::new(SEGMENTS)).unwrap(), fixture.path());
    assert!(read_file(&sim, &fixture.path()) == fixture.file, "hydrated file differs");
}

fn check_summary(fixture: &Fixture, artifact: &Artifact) {
    let summary = &artifact.index().summary;
    let footer = SegmentFooter::decode(fixture.meta.format, &fixture.footer).unwrap().unwrap();
    // The last record's id is all that a summary does not keep.
    assert_eq!(SegmentFooter { last_record_id: None, ..footer }, artifact.footer());
    let records = || fixture.placed.iter().filter(|p| !p.is_gap);
    let times = || records().map(|p| p.timestamp_ms);
    assert_eq!(summary.first_timestamp_ms, times().min().unwrap_or(0));
    assert_eq!(summary.last_timestamp_ms, times().max().unwrap_or(0));
    assert_eq!(summary.sealed_at_ns, SEALED_AT_NS);
}

/// The windows hold every record, in order, and no frame is longer than asked for
/// without need.
fn check_frames(fixture: &Fixture, artifact: &Artifact, options: &ArtifactOptions) {
    let frames = &artifact.index().frames;
    let mut expected = fixture.placed.iter();
    let mut largest = 0;
    let windows = artifact.windows(0..frames.len()).unwrap();
    assert_eq!(windows.len(), frames.len());
    for (frame, window) in frames.iter().zip(&windows) {
        assert_eq!(window.window_range(), frame.position..frame.position + frame.len);
        let start = frame.position as usize;
        assert_eq!(
            window.map().bytes(0, frame.len as usize).unwrap(),
            &fixture.file[start..][..frame.len as usize]
        );
        let content = &fixture.file[start..start + frame.len as usize];
        assert_eq!(frame.checksum, xxhash_rust::xxh64::xxh64(content, 0) as u32);
        assert_eq!(frame.timestamp_before_ms, largest);
        let mut at = window.first_point().position;
        let mut count = 0;
        let end = window.window_range().end;
        while let Some(record) = window.record_at(at, end, true).unwrap() {
            let placed = expected.next().unwrap();
            assert_eq!((at, record.payload), (placed.position, &*placed.payload));
            if count == 0 {
                assert_eq!(frame.first_offset, placed.offset);
            }
            largest = largest.max(placed.timestamp_ms);
            at += record.head.record_len;
            count += 1;
        }
        assert_eq!(at, end);
        assert!(frame.len <= options.frame_bytes || count == 1, "{frame:?}");
    }
    assert!(expected.next().is_none());
    for pair in frames.windows(2) {
        assert!(pair[0].len + pair[1].len > options.frame_bytes, "frames too short: {pair:?}");
    }
}

fn check_lookups(fixture: &Fixture, artifact: &Artifact) {
    let index = artifact.index();
    let frame_of =
        |position: u32| index.frames.iter().rposition(|frame| frame.position <= position);
    for placed in fixture.placed.iter().filter(|p| !p.is_gap) {
        assert_eq!(index.frame_at(placed.position), frame_of(placed.position));
        assert_eq!(index.frame_of_offset(placed.offset), frame_of(placed.position));
        let first =
            fixture.placed.iter().find(|p| !p.is_gap && p.timestamp_ms >= placed.timestamp_ms);
        let expected = first.and_then(|p| frame_of(p.position));
        assert_eq!(index.frame_of_timestamp(placed.timestamp_ms), expected);
    }
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        8 => (1_usize..3_000, 1_u64..10_000, any::<bool>())
            .prop_map(|(len, timestamp_ms, is_random)| Item::Record { len, timestamp_ms, is_random }),
        1 => (3_000_usize..40_000, 1_u64..10_000, any::<bool>())
            .prop_map(|(len, timestamp_ms, is_random)| Item::Record { len, timestamp_ms, is_random }),
        1 => (0_u64..50, 1_usize..900)
            .prop_map(|(lost_count, words)| Item::Gap { lost_count, words }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_segment_comes_back(
        items in prop::collection::vec(item(), 0..60),
        format in prop::sample::select(&FORMATS[..]),
        frame_bytes in prop::sample::select(&[4_096_u32, 5_000, 16 << 10, 256 << 10][..]),
        level in 1..6,
    ) {
        check(&Fixture::new(format, &items), &ArtifactOptions { level, frame_bytes });
    }
}

#[test]
fn a_segment_without_records_comes_back() {
    for format in FORMATS {
        check(&Fixture::new(format, &[]), &ArtifactOptions::default());
    }
}

/// A record longer than any frame is compressed, verified and hydrated in pieces, and
/// still is one window.
#[test]
fn a_record_longer_than_memory_allows_goes_in_pieces() {
    let len = 20 << 20;
    let items = [
        Item::Record { len: 100, timestamp_ms: 1, is_random: false },
        Item::Record { len, timestamp_ms: 2, is_random: true },
        Item::Record { len: 100, timestamp_ms: 3, is_random: false },
    ];
    let fixture = Fixture::new(SegmentFormat::Full, &items);
    let options = ArtifactOptions { level: 1, ..ArtifactOptions::default() };
    check(&fixture, &options);
    let memory = Memory::new(fixture.artifact(&options));
    let artifact = Artifact::open(memory.clone()).unwrap();
    assert_eq!(artifact.index().frames.len(), 3);
    memory.longest.store(0, Ordering::Relaxed);
    let mut longest = 0;
    artifact
        .stream(|_, bytes| {
            longest = longest.max(bytes.len());
            Ok(())
        })
        .unwrap();
    assert!(longest <= PIECE_LEN_MAX, "{longest} bytes at once");
    assert!(memory.longest.load(Ordering::Relaxed) <= READ_LEN_MAX);
}

#[test]
fn many_frames_are_few_reads() {
    let items: Vec<Item> =
        (0..600).map(|i| Item::Record { len: 20_000, timestamp_ms: i, is_random: true }).collect();
    let fixture = Fixture::new(SegmentFormat::Full, &items);
    let memory = Memory::new(fixture.artifact(&ArtifactOptions::default()));
    let artifact = Artifact::open(memory.clone()).unwrap();
    assert_eq!(memory.take_reads(), 1);
    let frame_count = artifact.index().frames.len();
    artifact.windows(3..frame_count).unwrap();
    assert_eq!(memory.take_reads(), 1);
    assert!(artifact.windows(frame_count..frame_count).unwrap().is_empty());
    assert!(artifact.windows(0..frame_count + 1).unwrap().is_empty());
    assert_eq!(memory.take_reads(), 0);
    artifact.verify(&mut |_| {}).unwrap();
    // 12 MB, four at a time.
    assert_eq!(memory.take_reads(), 3);
    // Whoever goes through all of it says what comes next, each time but the last.
    let ahead = std::mem::take(&mut *memory.announced.lock());
    assert!(ahead.len() == 2 && ahead[0].end > ahead[1].start, "{ahead:?}");
    artifact.announce(1..3);
    let frames = &artifact.index().frames;
    let announced = frames[1].compressed_offset..frames[2].compressed_end();
    assert_eq!(*memory.announced.lock(), [announced]);
}

#[test]
fn an_index_longer_than_the_guess_costs_a_second_read() {
    let items: Vec<Item> = (0..2_000)
        .map(|i| Item::Record { len: 4_000, timestamp_ms: i, is_random: false })
        .collect();
    let memory = Memory::new(Fixture::new(SegmentFormat::Full, &items).artifact(&SMALL));
    let artifact = Artifact::open(memory.clone()).unwrap();
    assert_eq!((artifact.index().frames.len(), memory.take_reads()), (2_000, 2));
    let tail = artifact.index().encode_tail();
    let kept = crate::format::ArtifactIndex::decode_kept_tail(&tail).unwrap();
    let again = Artifact::with_index(memory.clone(), kept);
    again.verify(&mut |_| {}).unwrap();
}

#[test]
fn only_a_sealed_and_intact_segment_is_compressed() {
    for format in FORMATS {
        let fixture = Fixture::mixed(format);
        let refused = |fixture: &Fixture, footer: &[u8; 64]| {
            let sim = SimStorage::new();
            let segment = fixture.store(&sim);
            let out = sim.create_new(Path::new(WARM)).unwrap();
            match write_artifact(&segment, footer, SEALED_AT_NS, &SMALL, &*out) {
                Err(AofError::Corrupt(damage)) => {
                    assert_eq!(damage.path, fixture.path());
                    damage.reason
                }
                other => panic!("{other:?}"),
            }
        };
        assert!(refused(&fixture, &[0; 64]).contains("no footer"));
        let mut footer = fixture.footer;
        footer[0] ^= 1;
        assert!(refused(&fixture, &footer).contains("does not decode"));
        // A flipped bit anywhere: in a payload, in a length, in the header.
        for at in (0..fixture.durable_bytes).step_by(13) {
            let mut damaged = fixture.clone();
            damaged.file[at] ^= 0x10;
            refused(&damaged, &fixture.footer);
        }
        let footer = SegmentFooter::decode(format, &fixture.footer).unwrap().unwrap();
        let more = SegmentFooter { record_count: footer.record_count + 1, ..footer };
        assert!(refused(&fixture, &more.encode()).contains("records"));
        let longer = SegmentFooter { durable_bytes: 1 << 20, ..footer };
        assert!(refused(&fixture, &longer.encode()).contains("claims more"));
    }
}

#[test]
fn options_that_no_reader_could_follow_are_refused() {
    let fixture = Fixture::mixed(SegmentFormat::Full);
    let sim = SimStorage::new();
    let segment = fixture.store(&sim);
    let out = sim.create_new(Path::new(WARM)).unwrap();
    for (level, frame_bytes) in [(0, 4096), (20, 4096), (3, 4095), (3, (16 << 20) + 1)] {
        let options = ArtifactOptions { level, frame_bytes };
        let refused = write_artifact(&segment, &fixture.footer, 0, &options, &*out);
        assert!(matches!(refused, Err(AofError::InvalidConfig { .. })), "{options:?}");
    }
    assert_eq!(out.len().unwrap(), 0);
    for (level, frame_bytes) in [(1, 4096), (19, 16 << 20)] {
        check(&fixture, &ArtifactOptions { level, frame_bytes });
    }
}

/// On a real file system the unused middle of the segment takes no space.
#[test]
fn a_hydrated_file_has_its_hole() {
    let dir = tempfile::tempdir().unwrap();
    let items = [Item::Record { len: 600_000, timestamp_ms: 1, is_random: true }; 2];
    let fixture = Fixture::new(SegmentFormat::Full, &items);
    let artifact = open_bytes(fixture.artifact(&ArtifactOptions::default())).unwrap();
    let path = hydrate(&OsStorage, &artifact, dir.path()).unwrap();
    assert!(read_file(&OsStorage, &path) == fixture.file);
    let file = OsStorage.open(&path, crate::io::OpenMode::Read).unwrap();
    assert_eq!(file.len().unwrap(), 2 << 20);
    let hole = file.next_data(fixture.durable_bytes.next_multiple_of(4096) as u64).unwrap();
    assert!(hole.is_none_or(|data| data >= (2 << 20) - 4096), "data at {hole:?}");
    assert!(file.allocated_len().unwrap() < 1_300_000, "{}", file.allocated_len().unwrap());
}
