//! What the manifest's formats promise, over random values and random damage.

#![allow(clippy::unwrap_used)]

use super::arbitrary::{OwnedRecord, any_record};
use super::*;
use crate::format::{FormatError, SegmentId, StreamId, crc64};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

prop_compose! {
    fn chunk_headers()(
        numbers in any::<(u64, u64, u64, u64)>(),
        committed_words in 8..u64::MAX / 16,
        tail_words in 0..u64::MAX / 16,
    ) -> ChunkHeader {
        ChunkHeader {
            chunk_index: numbers.0,
            base_record: numbers.1,
            committed_len: committed_words * 8,
            tail_offset: (committed_words + tail_words) * 8,
            chunk_crc64: numbers.2,
            flags: ChunkFlags::from_bits(numbers.3),
        }
    }
}

prop_compose! {
    fn segments()(
        segment_id in 0u64..200,
        numbers in any::<[u64; 6]>(),
        options in any::<[Option<u64>; 7]>(),
        small in any::<[Option<u32>; 5]>(),
        epoch in any::<u32>(),
        hot in any::<bool>(),
        flush_failure in any::<Option<bool>>(),
        cold_key in prop::option::of("\\PC{0,12}"),
        cold_etag in prop::option::of("\\PC{0,12}"),
    ) -> ManifestSegment {
        ManifestSegment {
            opened_at_ms: numbers[1],
            updated_at_ms: numbers[2],
            last_record: numbers[3],
            hot,
            durable_bytes: options[0],
            segment_crc64: options[1],
            ext_id: options[2],
            watermark: options[3],
            sealed_at_ms: options[4],
            flush_failure,
            warm_bytes: options[5],
            dictionary_id: small[0],
            cold_key,
            cold_etag,
            resident_bytes: numbers[4],
            reclaimed_bytes: numbers[5],
            compression_job: small[1],
            hydration_source: options[6],
            compression_failure: small[2],
            upload_failure: small[3],
            hydration_failure: small[4],
            ..ManifestSegment::opened(SegmentId::from_u64(segment_id), numbers[0], epoch)
        }
    }
}

prop_compose! {
    fn uploads()(
        key in "\\PC{0,12}", numbers in any::<[u64; 5]>(),
        attempts in any::<u32>(), failure in any::<Option<u32>>(),
    ) -> PendingUpload {
        PendingUpload {
            key,
            segment_id: SegmentId::from_u64(numbers[0]),
            logical_offset: numbers[1],
            started_at_ms: numbers[2],
            updated_at_ms: numbers[3],
            last_record: numbers[4],
            attempts,
            failure: failure.map(ReasonCode),
        }
    }
}

prop_compose! {
    fn deletes()(key in "\\PC{0,12}", numbers in any::<[u64; 3]>()) -> PendingDelete {
        PendingDelete {
            key,
            segment_id: SegmentId::from_u64(numbers[0]),
            queued_at_ms: numbers[1],
            last_record: numbers[2],
        }
    }
}

fn unresolved() -> impl Strategy<Value = UnresolvedRecord> {
    (any_record(), any::<u64>()).prop_map(|(record, ordinal)| UnresolvedRecord {
        segment_id: SegmentId::from_u64(record.segment_id),
        ordinal,
        bytes: record.encode(),
    })
}

prop_compose! {
    fn images()(
        numbers in any::<[u64; 6]>(),
        chunk_words in 8..u64::MAX / 8,
        unknown_flags in any::<u16>(),
        mut segments in prop::collection::vec(segments(), 0..4),
        mut pending_uploads in prop::collection::vec(uploads(), 0..3),
        mut pending_deletes in prop::collection::vec(deletes(), 0..3),
        mut unresolved in prop::collection::vec(unresolved(), 0..3),
    ) -> SnapshotImage {
        segments.sort_by_key(|segment| segment.segment_id);
        segments.dedup_by_key(|segment| segment.segment_id);
        pending_uploads.sort_by(|a, b| a.key.cmp(&b.key));
        pending_uploads.dedup_by(|a, b| a.key == b.key);
        pending_deletes.sort_by(|a, b| a.key.cmp(&b.key));
        pending_deletes.dedup_by(|a, b| a.key == b.key);
        unresolved.sort_by_key(|record| (record.segment_id, record.ordinal));
        unresolved.dedup_by_key(|record| (record.segment_id, record.ordinal));
        SnapshotImage {
            snapshot_id: numbers[0],
            chunk_index: numbers[1],
            chunk_offset: chunk_words * 8,
            next_record: numbers[2],
            opened_end: 200,
            segments,
            pending_uploads,
            pending_deletes,
            unresolved,
            counts: FoldCounts {
                unknown_records: numbers[3],
                late_records: numbers[4],
                unresolved_dropped: numbers[5],
                unknown_flags,
            },
        }
    }
}

/// Every copy of `bytes` with one bit changed, and which bit.
fn flips(bytes: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> + '_ {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        (bit, flipped)
    })
}

/// A snapshot with a valid checksum over whatever was done to it.
fn reseal(bytes: &mut [u8]) {
    let end = bytes.len() - 8;
    let crc = crc64(&bytes[..end]);
    bytes[end..].copy_from_slice(&crc.to_le_bytes());
}

/// The header of the record that a flipped bit turned `record` into, by the table.
fn with_flipped_header(record: &[u8], bit: usize) -> ManifestRecordHeader {
    let mut header = ManifestRecordHeader::decode(record).unwrap();
    let (byte, mask) = (bit / 8, 1u64 << (bit % 8));
    match byte {
        0..2 => header.record_type ^= (mask << (8 * byte)) as u16,
        2..4 => header.flags ^= (mask << (8 * (byte - 2))) as u16,
        8..16 => {
            let id = header.segment_id.as_u64() ^ (mask << (8 * (byte - 8)));
            header.segment_id = SegmentId::from_u64(id);
        }
        16..24 => header.logical_offset ^= mask << (8 * (byte - 16)),
        24..32 => header.timestamp_ms ^= mask << (8 * (byte - 24)),
        _ => {}
    }
    header
}

proptest! {
    #[test]
    fn records_round_trip(
        owned in any_record(), behind in prop::collection::vec(any::<u8>(), 0..50),
    ) {
        let mut bytes = owned.encode();
        let len = bytes.len();
        prop_assert_eq!(len, owned.record().encoded_len());
        prop_assert!(len.is_multiple_of(RECORD_ALIGN));
        bytes.extend(behind);
        prop_assert_eq!(ManifestRecord::decode(&bytes), Ok((owned.record(), len)));
    }

    /// The header is covered by the chunk's checksum, not by the record's. So a flipped
    /// bit in it is either refused here or read as exactly what it now says; one in
    /// payload, checksum, length or padding is always refused.
    #[test]
    fn a_flipped_bit_is_detected_or_is_the_header_field_it_changed(owned in any_record()) {
        let bytes = owned.encode();
        for (bit, flipped) in flips(&bytes) {
            let Ok((found, len)) = ManifestRecord::decode(&flipped) else { continue };
            prop_assert!(bit < 32 || (64..256).contains(&bit), "bit {} was not noticed", bit);
            prop_assert_eq!(len, bytes.len());
            let header = with_flipped_header(&bytes, bit);
            prop_assert_eq!(found.flags, header.flags);
            prop_assert_eq!(found.segment_id, header.segment_id);
            prop_assert_eq!(found.logical_offset, header.logical_offset);
            prop_assert_eq!(found.timestamp_ms, header.timestamp_ms);
            prop_assert_eq!(found.event.record_type(), header.record_type);
            if bit >= 16 {
                prop_assert_eq!(found.event, owned.event());
            }
        }
    }

    #[test]
    fn a_record_cut_anywhere_is_too_short(owned in any_record()) {
        let bytes = owned.encode();
        for cut in 0..bytes.len() {
            let needed = if cut < RECORD_HEADER_LEN { RECORD_HEADER_LEN } else { bytes.len() };
            let expected = Err(FormatError::TooShort { needed, available: cut });
            prop_assert_eq!(ManifestRecord::decode(&bytes[..cut]), expected);
        }
    }

    /// With a checksum that matches, so that what is behind it is reached.
    #[test]
    fn any_payload_of_any_type_is_refused_or_encodes_the_same(
        record_type in 0u16..20, payload in prop::collection::vec(any::<u8>(), 0..60),
        lens in any::<(u8, u8)>(),
    ) {
        let mut payload = payload;
        // Lengths that are often right.
        for (at, len) in [(0, lens.0), (2, lens.1)] {
            if let Some(slot) = payload.get_mut(at..at + 2) {
                slot.copy_from_slice(&u16::from(len % 32).to_le_bytes());
            }
        }
        let header = ManifestRecordHeader {
            record_type,
            flags: 0,
            payload_len: payload.len() as u32,
            segment_id: SegmentId::from_u64(1),
            logical_offset: 2,
            timestamp_ms: 3,
            payload_crc64: crc64(&payload),
        };
        let mut bytes = [&header.encode()[..], &payload].concat();
        bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGN), 0);
        if let Ok((record, len)) = ManifestRecord::decode(&bytes) {
            let mut again = Vec::new();
            record.encode(&mut again).unwrap();
            prop_assert_eq!(&again, &bytes);
            prop_assert_eq!(len, bytes.len());
        }
    }

    #[test]
    fn lengths_that_lie_are_refused(
        owned in any_record(), payload_len in prop_oneof![0u32..150, any::<u32>()],
    ) {
        let mut bytes = owned.encode();
        let header = ManifestRecordHeader::decode(&bytes).unwrap();
        prop_assume!(payload_len != header.payload_len);
        bytes[..40].copy_from_slice(&ManifestRecordHeader { payload_len, ..header }.encode());
        prop_assert!(ManifestRecord::decode(&bytes).is_err());
    }

    #[test]
    fn a_record_decodes_from_any_bytes_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ManifestRecord::decode(&bytes);
        let _ = ChunkHeader::decode(&bytes);
        let _ = SnapshotImage::decode(&bytes);
    }

    #[test]
    fn chunk_headers_round_trip(
        header in chunk_headers(), behind in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = header.encode().to_vec();
        bytes.extend(behind);
        prop_assert_eq!(ChunkHeader::decode(&bytes), Ok(header));
        for cut in 0..CHUNK_HEADER_LEN {
            let expected = Err(FormatError::TooShort { needed: 64, available: cut });
            prop_assert_eq!(ChunkHeader::decode(&bytes[..cut]), expected);
        }
    }

    #[test]
    fn a_flipped_bit_in_a_chunk_header_is_refused_or_changes_its_own_field(
        header in chunk_headers(),
    ) {
        for (bit, flipped) in flips(&header.encode()) {
            let Ok(found) = ChunkHeader::decode(&flipped) else { continue };
            prop_assert!(bit >= 128, "bit {} was not noticed", bit);
            prop_assert_eq!(found.encode().to_vec(), flipped);
        }
    }

    #[test]
    fn snapshots_round_trip(image in images()) {
        let bytes = image.encode();
        prop_assert_eq!(SnapshotImage::decode(&bytes), Ok(image));
        prop_assert!(bytes.len().is_multiple_of(8));
    }

    #[test]
    fn a_snapshot_cut_anywhere_or_grown_is_refused(image in images()) {
        let mut bytes = image.encode();
        for cut in 0..bytes.len() {
            prop_assert!(SnapshotImage::decode(&bytes[..cut]).is_err(), "cut at {}", cut);
        }
        bytes.extend([0; 8]);
        prop_assert!(SnapshotImage::decode(&bytes).is_err());
        reseal(&mut bytes);
        prop_assert!(SnapshotImage::decode(&bytes).is_err());
    }

    /// Damage under a checksum that matches: whoever made it. What is accepted is a
    /// snapshot like any other.
    #[test]
    fn a_resealed_snapshot_is_refused_or_encodes_the_same(
        image in images(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = image.encode();
        for (at, byte) in changes {
            let at = at.index(bytes.len() - 8);
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        if let Ok(found) = SnapshotImage::decode(&bytes) {
            prop_assert_eq!(found.encode(), bytes);
        }
    }

    #[test]
    fn names_parse_exactly(number in any::<u64>(), text in "[0-9a-z_.]{0,40}") {
        let chunk = ChunkFileName { chunk_index: number };
        let snapshot = SnapshotFileName { snapshot_id: number };
        prop_assert_eq!(ChunkFileName::parse(&chunk.format()), Some(chunk));
        prop_assert_eq!(SnapshotFileName::parse(&snapshot.format()), Some(snapshot));
        for name in [chunk.format_temporary(), snapshot.format_temporary(), text] {
            for parsed in [
                ChunkFileName::parse(&name).map(|name| name.format()),
                ChunkFileName::parse_temporary(&name).map(|name| name.format_temporary()),
                SnapshotFileName::parse(&name).map(|name| name.format()),
                SnapshotFileName::parse_temporary(&name).map(|name| name.format_temporary()),
            ].into_iter().flatten() {
                prop_assert_eq!(parsed, name.clone());
            }
        }
    }

    #[test]
    fn keys_of_chunks_are_told_from_all_others(
        prefix in "[a-z/]{0,9}", stream in any::<u64>(), lineage in prop_oneof![Just(0), any::<u32>()],
        chunk_index in any::<u64>(), other in "\\PC{0,60}",
    ) {
        let name = StoredChunkName { stream_id: StreamId::from_u64(stream), lineage, chunk_index };
        let key = name.key(&prefix);
        prop_assert_eq!(StoredChunkName::parse(&key), Some(name));
        prop_assert_eq!(StoredChunkName::parse(&format!("{key}x")), None);
        prop_assert_eq!(StoredChunkName::parse(&format!("x{}", name.key(""))), None);
        if let Some(name) = StoredChunkName::parse(&other) {
            prop_assert!(other.ends_with(&name.key("")));
        }
    }
}

proptest! {
    // Every bit of a snapshot of some kilobytes: a few are enough.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_flipped_bit_in_a_snapshot_is_detected(image in images()) {
        let bytes = image.encode();
        for (bit, flipped) in flips(&bytes) {
            prop_assert!(SnapshotImage::decode(&flipped).is_err(), "bit {} was not noticed", bit);
        }
    }
}

fn owned(kind: u16) -> OwnedRecord {
    OwnedRecord {
        flags: 0,
        segment_id: 1,
        logical_offset: 2,
        timestamp_ms: 3,
        kind,
        numbers: [4, 5, 6, 7],
        bit: true,
        key: "key".into(),
        etag: "etag".into(),
        blob: b"blob".to_vec(),
    }
}

fn encode_error(record: &OwnedRecord) -> Option<FormatError> {
    let mut out = b"kept".to_vec();
    let error = record.record().encode(&mut out).err();
    if error.is_some() {
        assert_eq!(out, b"kept", "a refused record left bytes behind");
    }
    error
}

#[test]
fn texts_up_to_the_longest_are_written_and_longer_ones_refused() {
    for kind in [5, 6, 7, 8, 9, 15] {
        let fill = |len| OwnedRecord {
            key: "k".repeat(len),
            etag: "e".repeat(len),
            blob: vec![1; len],
            ..owned(kind)
        };
        let longest = fill(TEXT_LEN_MAX);
        let bytes = longest.encode();
        assert_eq!(ManifestRecord::decode(&bytes), Ok((longest.record(), bytes.len())));
        let error = encode_error(&fill(TEXT_LEN_MAX + 1));
        assert!(matches!(error, Some(FormatError::BadField { .. })), "kind {kind}: {error:?}");
    }
    let etag = "e".repeat(TEXT_LEN_MAX + 1);
    let error = encode_error(&OwnedRecord { etag, ..owned(6) });
    assert!(matches!(error, Some(FormatError::BadField { field: "etag", .. })));
}

#[test]
fn an_unknown_record_needs_a_payload_and_a_type_of_its_own() {
    let unknown = |record_type, payload| ManifestRecord {
        event: ManifestEvent::Unknown { record_type, payload },
        ..owned(0).record()
    };
    let long = vec![0; PAYLOAD_LEN_MAX + 1];
    for (record_type, payload) in [(15, &b"x"[..]), (16, &[]), (16, &long)] {
        let mut out = Vec::new();
        assert!(unknown(record_type, payload).encode(&mut out).is_err());
        assert!(out.is_empty());
    }
    let mut out = Vec::new();
    let longest = unknown(u16::MAX, &long[1..]);
    longest.encode(&mut out).unwrap();
    assert_eq!(ManifestRecord::decode(&out), Ok((longest, out.len())));
}

#[test]
fn zeros_are_not_a_record() {
    let error = ManifestRecord::decode(&[0; 4096]).unwrap_err();
    assert_eq!(error, FormatError::BadField { field: "payload_len", reason: "empty payload" });
}

#[test]
fn a_length_that_would_wrap_is_refused_before_it_is_used() {
    let mut bytes = owned(0).encode();
    bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = ManifestRecord::decode(&bytes).unwrap_err();
    let reason = "longer than any chunk";
    assert_eq!(error, FormatError::BadField { field: "payload_len", reason });
}

#[test]
fn chunk_headers_with_impossible_ends_are_refused() {
    let good = ChunkHeader {
        chunk_index: 0,
        base_record: 0,
        tail_offset: 128,
        committed_len: 64,
        chunk_crc64: 0,
        flags: ChunkFlags::NONE,
    };
    assert_eq!(ChunkHeader::decode(&good.encode()), Ok(good));
    for (tail_offset, committed_len) in
        [(56, 56), (64, 56), (128, 0), (128, 136), (132, 64), (128, 68), (u64::MAX, 64)]
    {
        let header = ChunkHeader { tail_offset, committed_len, ..good };
        let found = ChunkHeader::decode(&header.encode());
        assert!(matches!(found, Err(FormatError::BadField { .. })), "{found:?}");
    }
}

/// A count decides how much memory is reserved, so it must be refused by looking at the
/// bytes that are there.
#[test]
fn hostile_counts_of_a_snapshot_are_refused() {
    let image = SnapshotImage {
        snapshot_id: 1,
        chunk_index: 0,
        chunk_offset: 64,
        next_record: 0,
        opened_end: 0,
        segments: Vec::new(),
        pending_uploads: Vec::new(),
        pending_deletes: Vec::new(),
        unresolved: Vec::new(),
        counts: FoldCounts::default(),
    };
    for count_at in [24, 64, 72, 80, 88] {
        for count in [1, 1 << 20, u64::MAX / 160 + 1, u64::MAX] {
            let mut bytes = image.encode();
            bytes[count_at..count_at + 8].copy_from_slice(&count.to_le_bytes());
            reseal(&mut bytes);
            let found = SnapshotImage::decode(&bytes);
            assert!(matches!(found, Err(FormatError::BadField { .. })), "{count_at}: {found:?}");
        }
    }
}

/// Entries that all refer to one long string would be a small file that fills memory.
#[test]
fn a_string_belongs_to_one_entry_only() {
    let upload = |key: &str| PendingUpload {
        key: key.into(),
        segment_id: SegmentId::from_u64(0),
        logical_offset: 0,
        started_at_ms: 0,
        updated_at_ms: 0,
        last_record: 0,
        attempts: 0,
        failure: None,
    };
    let image = SnapshotImage {
        snapshot_id: 1,
        chunk_index: 0,
        chunk_offset: 64,
        next_record: 0,
        opened_end: 0,
        segments: Vec::new(),
        pending_uploads: vec![upload("aaaaaaaa"), upload("bbbbbbbb")],
        pending_deletes: Vec::new(),
        unresolved: Vec::new(),
        counts: FoldCounts::default(),
    };
    let mut bytes = image.encode();
    let second_offset = 128 + 64 + 56;
    assert_eq!(bytes[second_offset], 8);
    bytes[second_offset] = 0;
    reseal(&mut bytes);
    let reason = "not behind the string before";
    let expected = FormatError::BadField { field: "strings_offset", reason };
    assert_eq!(SnapshotImage::decode(&bytes), Err(expected));
}

/// There is one way to write a state: a table out of order, or with the same entry
/// twice, was not written by us.
#[test]
fn tables_out_of_order_are_refused() {
    let mut runner = TestRunner::deterministic();
    let mut image = images().new_tree(&mut runner).unwrap().current();
    let segment = |id| ManifestSegment::opened(SegmentId::from_u64(id), 0, 0);
    let upload = |key: &str| {
        let mut runner = TestRunner::deterministic();
        PendingUpload { key: key.into(), ..uploads().new_tree(&mut runner).unwrap().current() }
    };
    let delete = |key: &str| {
        let (segment_id, queued_at_ms, last_record) = (SegmentId::from_u64(1), 2, 3);
        PendingDelete { key: key.into(), segment_id, queued_at_ms, last_record }
    };
    let waiting = |ordinal| UnresolvedRecord {
        segment_id: SegmentId::from_u64(1),
        ordinal,
        bytes: owned(2).encode(),
    };
    image.segments = vec![segment(1), segment(2)];
    image.pending_uploads = vec![upload("a"), upload("b")];
    image.pending_deletes = vec![delete("a"), delete("b")];
    image.unresolved = vec![waiting(1), waiting(2)];
    assert_eq!(SnapshotImage::decode(&image.encode()), Ok(image.clone()));

    type Change = fn(&mut SnapshotImage);
    let changes: [Change; 9] = [
        |image| image.segments.swap(0, 1),
        |image| image.segments[1].segment_id = image.segments[0].segment_id,
        |image| image.opened_end = 2,
        |image| image.pending_uploads.swap(0, 1),
        |image| image.pending_uploads[1].key = "a".into(),
        |image| image.pending_deletes.swap(0, 1),
        |image| image.pending_deletes[1].key = "a".into(),
        |image| image.unresolved.swap(0, 1),
        |image| image.unresolved[1].ordinal = 1,
    ];
    for (at, change) in changes.iter().enumerate() {
        let mut changed = image.clone();
        change(&mut changed);
        let found = SnapshotImage::decode(&changed.encode());
        assert!(matches!(found, Err(FormatError::BadField { .. })), "change {at}: {found:?}");
    }
}
