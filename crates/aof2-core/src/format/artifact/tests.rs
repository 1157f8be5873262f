//! Golden bytes, hostile tails, lookups and names.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::format::{FormatError, SegmentFormat, SegmentId, StreamId, crc64};

fn summary(frame_count: u32) -> ArtifactSummary {
    ArtifactSummary {
        stream_id: StreamId::from_u64(0x1122_3344_5566_7788),
        segment_id: SegmentId::from_u64(7),
        format: SegmentFormat::Full,
        base_offset: 0x0A00,
        first_offset: 100,
        record_count: u64::from(frame_count) * 10,
        durable_bytes: 64 + frame_count * 4096,
        segment_bytes: 1 << 20,
        segment_crc64: 0x0123_4567_89AB_CDEF,
        ext_id: 0x0E,
        footer_flags: 1,
        created_at_ns: 0x0C,
        sealed_at_ns: 0x0D,
        first_timestamp_ms: 1_000,
        last_timestamp_ms: 1_000 + u64::from(frame_count) * 50,
    }
}

/// Ten records and 50 ms per frame; the first one has the header too.
fn index(frame_count: u32) -> ArtifactIndex {
    let summary = summary(frame_count);
    let frames: Vec<ArtifactFrame> = (0..frame_count)
        .map(|i| ArtifactFrame {
            position: if i == 0 { 0 } else { 64 + i * 4096 },
            len: if i == 0 { 4096 + 64 } else { 4096 },
            first_offset: 100 + u64::from(i) * 10,
            timestamp_before_ms: if i == 0 { 0 } else { 1_000 + u64::from(i) * 50 },
            compressed_offset: u64::from(i) * 500,
            compressed_len: 500,
            checksum: 0xC0_0000 + i,
        })
        .collect();
    let footer = ArtifactFrame {
        position: summary.durable_bytes,
        len: 64,
        first_offset: summary.end_offset(),
        timestamp_before_ms: summary.last_timestamp_ms,
        compressed_offset: u64::from(frame_count) * 500,
        compressed_len: 60,
        checksum: 0xF0,
    };
    ArtifactIndex { summary, frames, footer }
}

fn artifact_len(index: &ArtifactIndex, tail: &[u8]) -> u64 {
    index.footer.compressed_end() + tail.len() as u64
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Gives a changed index frame a checksum that matches again.
fn reseal(tail: &mut [u8], frame_count: usize) {
    let end = frame_index::index_len(frame_count) - 8;
    let crc = crc64(&tail[8..end]);
    tail[end..end + 8].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn the_bytes_are_pinned() {
    let index = index(1);
    let tail = index.encode_tail();
    let golden = [
        "5b2a4d18a8000000",                                 // skippable frame of 168 bytes
        "4d5241573246 4f41",                                // "AOF2WARM"
        "0100000002000000",                                 // version 1, full
        "8877665544332211",                                 // stream
        "0700000000000000000a0000000000006400000000000000", // segment, base, first offset
        "0a00000000000000",                                 // records
        "40100000000000000000100000000000",                 // durable and segment bytes
        "efcdab89674523010e000000000000000100000000000000", // crc, ext id, flags
        "0c000000000000000d00000000000000",                 // created, sealed
        "e8030000000000001a04000000000000",                 // timestamps
        "0100000000000000",                                 // one frame
        "000000004010000064000000000000000000000000000000", // its entry
        "CRC",
        "5e2a4d182d000000",         // skippable frame of 45 bytes
        "f4010000401000000000c000", // data
        "3c00000040000000f0000000", // footer
        "b00000000000000099e9d851", // index frame
        "0300000080b1ea928f",
    ];
    let crc = format!("{:016x}", crc64(&tail[8..168]).swap_bytes());
    let golden = golden.concat().replace(' ', "").replace("CRC", &crc);
    assert_eq!(hex(&tail), golden);
    assert_eq!(ArtifactIndex::decode_tail(&tail, artifact_len(&index, &tail)), Ok(index));
}

#[test]
fn the_checksum_of_nothing_is_that_of_xxh64() {
    assert_eq!(seek_table::CHECKSUM_OF_NOTHING, xxhash_rust::xxh64::xxh64(b"", 0) as u32);
}

#[test]
fn a_later_version_says_so() {
    let index = index(2);
    let mut tail = index.encode_tail();
    tail[16] = 2;
    reseal(&mut tail, 2);
    let decoded = ArtifactIndex::decode_tail(&tail, artifact_len(&index, &tail));
    assert_eq!(decoded, Err(FormatError::UnsupportedVersion { found: 2 }));
}

/// Every field that a writer could not have meant is refused although all checksums
/// match.
#[test]
fn lies_under_valid_checksums_are_refused() {
    type Lie = (&'static str, fn(&mut ArtifactIndex));
    let lies: [Lie; 21] = [
        ("durable_bytes", |i| i.summary.durable_bytes += 8),
        ("durable_bytes", |i| i.summary.durable_bytes = 63),
        ("durable_bytes", |i| i.summary.segment_bytes = 1 << 16),
        ("segment_bytes", |i| i.summary.segment_bytes -= 1),
        ("segment_bytes", |i| i.summary.segment_bytes = 1 << 15),
        ("segment_id", |i| i.summary.segment_id = SegmentId::from_u64(1 << 32)),
        ("record_count", |i| i.summary.record_count = u64::MAX - 99),
        ("base_offset", |i| i.summary.base_offset = u64::MAX - 5_000),
        ("position", |i| i.frames[1].position += 8),
        ("position", |i| i.frames[0].len += 8),
        ("len", |i| i.frames[0].len = 0),
        ("len", |i| i.frames[0].len += 1),
        ("len", |i| i.frames[19].len = u32::MAX - 7),
        ("first_offset", |i| i.frames[2].first_offset = 0),
        ("first_offset", |i| i.frames[2].timestamp_before_ms = 0),
        ("first_offset", |i| i.summary.first_offset -= 1),
        ("first_offset", |i| i.frames[19].first_offset = 301),
        ("first_offset", |i| i.summary.last_timestamp_ms = 1_000),
        ("compressed_len", |i| i.frames[1].compressed_len = 12),
        ("compressed_len", |i| i.frames[1].compressed_len += 1),
        ("decompressed_len", |i| i.footer.len = 65),
    ];
    for (n, (field, lie)) in lies.into_iter().enumerate() {
        let honest = index(20);
        let mut index = honest.clone();
        lie(&mut index);
        let tail = index.encode_tail();
        let decoded = ArtifactIndex::decode_tail(&tail, artifact_len(&honest, &tail));
        match decoded {
            Err(FormatError::BadField { field: found, .. }) => assert_eq!(found, field, "lie {n}"),
            other => panic!("lie {n} about {field}: {other:?}"),
        }
    }
}

#[test]
fn a_claim_that_no_frame_could_decompress_to_is_refused() {
    let mut index = index(1);
    index.summary.segment_bytes = 2 << 30;
    index.summary.durable_bytes = (2 << 30) - 64;
    index.frames[0].len = index.summary.durable_bytes;
    index.frames[0].compressed_len = 65_535;
    let encode = |index: &mut ArtifactIndex| {
        index.footer.position = index.summary.durable_bytes;
        index.footer.compressed_offset = u64::from(index.frames[0].compressed_len);
        let tail = index.encode_tail();
        ArtifactIndex::decode_tail(&tail, artifact_len(index, &tail))
    };
    let refused = encode(&mut index);
    assert!(matches!(refused, Err(FormatError::BadField { field: "compressed_len", .. })));
    index.frames[0].compressed_len += 1;
    assert_eq!(encode(&mut index), Ok(index));
}

/// Readers hold the footer's frame in memory whole, so its length has a bound of its own.
#[test]
fn a_long_footer_frame_is_refused() {
    let mut index = index(1);
    for (compressed_len, is_right) in [(128, true), (129, false), (u32::MAX, false)] {
        index.footer.compressed_len = compressed_len;
        let tail = index.encode_tail();
        let decoded = ArtifactIndex::decode_tail(&tail, artifact_len(&index, &tail));
        assert_eq!(decoded.is_ok(), is_right, "{compressed_len}");
    }
}

/// A seek table that claims millions of frames is refused from its last nine bytes:
/// nobody reads or allocates what it asks for.
#[test]
fn the_tail_is_never_longer_than_the_largest_artifact_needs() {
    for frame_count in [0, 1, 2, (1 << 20) + 3, u32::MAX] {
        let mut end = frame_count.to_le_bytes().to_vec();
        end.extend_from_slice(&[0x80, 0xB1, 0xEA, 0x92, 0x8F]);
        assert!(ArtifactIndex::tail_len(&end).is_err(), "{frame_count}");
        assert!(ArtifactIndex::decode_tail(&end, u64::MAX).is_err(), "{frame_count}");
    }
    let mut end = ((1_u32 << 20) + 2).to_le_bytes().to_vec();
    end.extend_from_slice(&[0x80, 0xB1, 0xEA, 0x92, 0x8F]);
    assert_eq!(ArtifactIndex::tail_len(&end), Ok(ARTIFACT_TAIL_LEN_MAX));
    assert_eq!(ARTIFACT_TAIL_LEN_MAX, (1 << 20) * 36 + 152 + 17 + 24);
    for last in [&end[1..], &[]] {
        assert!(matches!(ArtifactIndex::tail_len(last), Err(FormatError::TooShort { .. })));
    }
}

#[test]
fn lookups_find_the_frame() {
    let index = index(3);
    assert_eq!(index.frame_at(0), Some(0));
    assert_eq!(index.frame_at(64 + 4096 - 1), Some(0));
    assert_eq!(index.frame_at(64 + 4096), Some(1));
    assert_eq!(index.frame_at(64 + 3 * 4096 - 1), Some(2));
    assert_eq!(index.frame_at(64 + 3 * 4096), None);
    let offsets = [(99, None), (100, Some(0)), (109, Some(0)), (110, Some(1)), (999, Some(2))];
    for (offset, frame) in offsets {
        assert_eq!(index.frame_of_offset(offset), frame, "{offset}");
    }
    // Frame 0 reaches 1050 ms, frame 1 1100 ms, frame 2 1150 ms.
    for (timestamp_ms, frame) in [
        (0, Some(0)),
        (1_050, Some(0)),
        (1_051, Some(1)),
        (1_100, Some(1)),
        (1_101, Some(2)),
        (1_150, Some(2)),
        (1_151, None),
    ] {
        assert_eq!(index.frame_of_timestamp(timestamp_ms), frame, "{timestamp_ms}");
    }
    assert_eq!(index.offsets_of(0), 100..110);
    assert_eq!(index.offsets_of(2), 120..130);
    assert!(index.offsets_of(3).is_empty());
}

proptest! {
    #[test]
    fn what_is_written_is_read_and_every_flipped_bit_shows(
        frame_count in 1_u32..40, at in any::<prop::sample::Index>(), bit in 0_u8..8,
    ) {
        let index = index(frame_count);
        let mut tail = index.encode_tail();
        let len = artifact_len(&index, &tail);
        prop_assert_eq!(ArtifactIndex::tail_len(&tail), Ok(tail.len() as u64));
        prop_assert_eq!(&ArtifactIndex::decode_tail(&tail, len), &Ok(index.clone()));
        let at = at.index(tail.len());
        tail[at] ^= 1 << bit;
        match ArtifactIndex::decode_tail(&tail, len) {
            Err(_) => {}
            // The checksum of a frame is all that decodes differently; the frame shows it.
            Ok(changed) => {
                let differ = |a: &ArtifactFrame, b: &ArtifactFrame| a.checksum != b.checksum;
                let all = |i: &ArtifactIndex| [i.frames.clone(), vec![i.footer]].concat();
                let found = all(&changed);
                let count = all(&index).iter().zip(&found).filter(|(a, b)| differ(a, b)).count();
                prop_assert_eq!(count, 1);
                prop_assert_eq!(changed.summary, index.summary);
            }
        }
    }

    #[test]
    fn a_cut_or_longer_artifact_is_refused(
        frame_count in 1_u32..40, cut in any::<prop::sample::Index>(), more in 1_u64..100,
    ) {
        let index = index(frame_count);
        let tail = index.encode_tail();
        let len = artifact_len(&index, &tail);
        let cut = cut.index(tail.len());
        prop_assert!(ArtifactIndex::decode_tail(&tail[..cut], len).is_err());
        prop_assert!(ArtifactIndex::decode_tail(&tail[cut + 1..], len).is_err());
        prop_assert!(ArtifactIndex::decode_tail(&tail, len + more).is_err());
        prop_assert!(ArtifactIndex::decode_tail(&tail, len.saturating_sub(more)).is_err());
        prop_assert!(ArtifactIndex::decode_tail(&tail, 0).is_err());
        // More in front of the tail does not matter.
        let longer = [vec![1; cut + 1], tail.clone()].concat();
        prop_assert_eq!(&ArtifactIndex::decode_tail(&longer, len), &Ok(index.clone()));
        // A tail that was kept alone is exactly that.
        prop_assert_eq!(ArtifactIndex::decode_kept_tail(&tail), Ok(index));
        prop_assert!(ArtifactIndex::decode_kept_tail(&longer).is_err());
        prop_assert!(ArtifactIndex::decode_kept_tail(&tail[..cut]).is_err());
    }

    /// Checksums do not protect from whoever can compute them: whatever decodes keeps
    /// the promises that readers rely on.
    #[test]
    fn a_resealed_tail_keeps_its_promises(
        frame_count in 1_u32..12,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let index = index(frame_count);
        let mut tail = index.encode_tail();
        let len = artifact_len(&index, &tail);
        for (at, byte) in changes {
            let at = at.index(tail.len());
            tail[at] = byte;
        }
        reseal(&mut tail, frame_count as usize);
        if let Ok(found) = ArtifactIndex::decode_tail(&tail, len) {
            let mut position = 0;
            let mut compressed = 0;
            for frame in found.frames.iter().chain([&found.footer]) {
                prop_assert_eq!(frame.position, position);
                prop_assert_eq!(frame.compressed_offset, compressed);
                position += frame.len;
                compressed += u64::from(frame.compressed_len);
            }
            prop_assert_eq!(position, found.summary.durable_bytes + 64);
            prop_assert!(position <= found.summary.segment_bytes);
            prop_assert_eq!(compressed + tail.len() as u64, len);
            prop_assert_eq!(found.artifact_len(), len);
            prop_assert!(found.frames.is_sorted_by_key(|f| f.first_offset));
            prop_assert_eq!(found.encode_tail(), tail);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400), len: u64) {
        let _ = ArtifactIndex::tail_len(&bytes);
        let _ = ArtifactIndex::decode_tail(&bytes, len);
    }

    #[test]
    fn metadata_round_trips(numbers in any::<[u64; 7]>(), durable_bytes: u32) {
        let metadata = ArtifactMetadata {
            segment_id: SegmentId::from_u64(numbers[0]),
            base_offset: numbers[1],
            first_offset: numbers[2],
            record_count: numbers[3],
            durable_bytes,
            segment_crc64: numbers[4],
            first_timestamp_ms: numbers[5],
            last_timestamp_ms: numbers[6],
        };
        let mut pairs = metadata.encode();
        pairs.insert("somebody-elses".into(), "x".into());
        prop_assert_eq!(ArtifactMetadata::decode(&pairs), Ok(metadata));
    }

    #[test]
    fn names_round_trip_and_nothing_else_parses(
        numbers in any::<(u64, u64, u64)>(), epoch: u32, prefix in "([a-z.]{1,3}/){0,2}[a-z]{0,3}",
        at in any::<prop::sample::Index>(), byte in "[ -~é/0]",
    ) {
        let segment_id = SegmentId::from_u64(numbers.0);
        let warm =
            WarmFileName { segment_id, base_offset: numbers.1, sealed_at_ns: numbers.2 };
        prop_assert_eq!(WarmFileName::parse(&warm.format()), Some(warm));
        let mut names = vec![warm.format()];
        if let Ok(key) = ColdKey::new(&prefix, StreamId::from_u64(numbers.1), segment_id, epoch) {
            prop_assert_eq!(ColdKey::parse(&key.to_string()), Some(key.clone()));
            prop_assert!(key.to_string().starts_with(
                &ColdKey::stream_prefix(&prefix, key.stream_id()).unwrap()
            ));
            names.push(key.to_string());
        }
        for mut name in names {
            let at = at.index(name.len());
            name.replace_range(at..=at, &byte);
            let again = [
                WarmFileName::parse(&name).map(|parsed| parsed.format()),
                ColdKey::parse(&name).map(|parsed| parsed.to_string()),
            ];
            for again in again.into_iter().flatten() {
                prop_assert_eq!(&again, &name);
            }
        }
    }
}

#[test]
fn names_are_pinned() {
    let warm = WarmFileName {
        segment_id: SegmentId::from_u64(12),
        base_offset: 34,
        sealed_at_ns: u64::MAX,
    };
    let name = "00000000000000000012_00000000000000000034_18446744073709551615.zst";
    assert_eq!(warm.format(), name);
    assert_eq!(WarmFileName::parse(name), Some(warm));
    let tail = "00000000000000000012_00000000000000000034_18446744073709551615_0000001f.tail";
    let kept = ColdTailName { artifact: warm, epoch: 31 };
    assert_eq!(kept.to_string(), tail);
    assert_eq!(ColdTailName::parse(tail), Some(kept));
    assert_eq!((WarmFileName::parse(tail), ColdTailName::parse(name)), (None, None));
    let of = WarmFileName::of(&summary(1));
    assert_eq!((of.segment_id.as_u64(), of.base_offset, of.sealed_at_ns), (7, 0x0A00, 0x0D));
    let (stream, segment) = (StreamId::from_u64(0xABC), SegmentId::from_u64(12));
    for (prefix, key) in [
        ("", "0000000000000abc/00000000000000000012-0000001f.zst"),
        ("a", "a/0000000000000abc/00000000000000000012-0000001f.zst"),
        ("a/b é/", "a/b é/0000000000000abc/00000000000000000012-0000001f.zst"),
    ] {
        let parsed = ColdKey::new(prefix, stream, segment, 31).unwrap();
        assert_eq!(parsed.to_string(), key);
        assert_eq!(ColdKey::parse(key), Some(parsed));
    }
}

#[test]
fn prefixes_that_could_lead_elsewhere_are_refused() {
    let (stream, segment) = (StreamId::from_u64(1), SegmentId::from_u64(2));
    let longest = "p".repeat(COLD_KEY_LEN_MAX - 51);
    for prefix in ["", "a", "a/", "..a", "a..", "...", &longest] {
        let key = ColdKey::new(prefix, stream, segment, 0).unwrap();
        assert!(key.to_string().len() <= COLD_KEY_LEN_MAX);
    }
    let too_long = format!("{longest}p");
    let tail = "0000000000000001/00000000000000000002-00000000.zst";
    for prefix in [
        "/", "//", "/a", "a//b", "a//", "..", "a/..", "../a", "a/./b", "a\n", "\u{85}", "a\0b",
        &too_long,
    ] {
        assert!(ColdKey::new(prefix, stream, segment, 0).is_err(), "{prefix:?}");
        assert!(ColdKey::stream_prefix(prefix, stream).is_err(), "{prefix:?}");
        assert_eq!(ColdKey::parse(&format!("{prefix}/{tail}")), None, "{prefix:?}");
    }
    assert_eq!(ColdKey::parse(&format!("/{tail}")), None);
}

#[test]
fn metadata_is_pinned_and_exact() {
    let metadata = ArtifactMetadata::from(&summary(2));
    let pairs = metadata.encode();
    let pinned = [
        ("aof2-base-offset", "2560"),
        ("aof2-durable-bytes", "8256"),
        ("aof2-first-offset", "100"),
        ("aof2-first-ts-ms", "1000"),
        ("aof2-last-ts-ms", "1100"),
        ("aof2-record-count", "20"),
        ("aof2-segment-crc64", "0123456789abcdef"),
        ("aof2-segment-id", "7"),
    ];
    let pinned: BTreeMap<String, String> =
        pinned.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    assert_eq!(pairs, pinned);
    for key in pinned.keys() {
        let mut missing = pairs.clone();
        missing.remove(key);
        assert!(ArtifactMetadata::decode(&missing).is_err(), "{key}");
        for wrong in
            ["", "+1", "-1", " 1", "1 ", "0x1", "18446744073709551616", "99999999999999999"]
        {
            let mut changed = pairs.clone();
            changed.insert(key.clone(), wrong.to_owned());
            let decoded = ArtifactMetadata::decode(&changed);
            let fits = wrong == "99999999999999999"
                && key != "aof2-durable-bytes"
                && key != "aof2-segment-crc64";
            assert_eq!(decoded.is_ok(), fits, "{key} = {wrong:?}");
        }
    }
}
