//! What the formats promise, over random values and random damage.

#![allow(clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

fn formats() -> impl Strategy<Value = SegmentFormat> {
    prop_oneof![Just(SegmentFormat::Full), Just(SegmentFormat::Compact)]
}

fn codecs() -> impl Strategy<Value = RecordCodec> {
    (formats(), any::<u64>(), any::<u32>())
        .prop_map(|(format, stream, segment)| codec(format, stream, u64::from(segment)))
}

fn codec(format: SegmentFormat, stream: u64, segment: u64) -> RecordCodec {
    RecordCodec::new(format, StreamId::from_u64(stream), SegmentId::from_u64(segment))
}

prop_compose! {
    fn metas()(
        logical_offset in any::<u64>(),
        // What version 1 can hold in nanoseconds.
        timestamp_ms in 0..u64::MAX / 1_000_000,
        flags in 0u32..4,
        durable_lag in any::<u32>(),
    ) -> RecordMeta {
        RecordMeta { logical_offset, timestamp_ms, flags: RecordFlags::from_bits(flags), durable_lag }
    }
}

/// Lengths around every place where the checksum changes its method.
fn payloads() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![1..40usize, 50..80usize, 90..300usize, 1000..1100usize];
    len.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len))
}

fn record(codec: &RecordCodec, meta: &RecordMeta, payload: &[u8]) -> Vec<u8> {
    let mut record = codec.encode_header(meta, payload).as_bytes().to_vec();
    record.extend_from_slice(payload);
    record.resize(codec.record_len(payload.len()), 0);
    record
}

prop_compose! {
    fn headers()(
        format in formats(),
        segment_id in any::<u32>(),
        // Whole milliseconds, as version 2 keeps them, up to the year 2262.
        created_at_ms in 0..i64::MAX as u64 / 1_000_000,
        stream_id in any::<u64>(),
        counts in any::<(u64, u64, u32)>(),
        base_timestamp_ms in 0..u64::MAX / 1_000_000,
    ) -> SegmentHeader {
        let v1 = format == SegmentFormat::Compact;
        SegmentHeader {
            format,
            segment_id: SegmentId::from_u64(u64::from(segment_id)),
            created_at_ns: created_at_ms * 1_000_000,
            stream_id: (!v1).then_some(StreamId::from_u64(stream_id)),
            base_record_count: v1.then_some(counts.0),
            base_offset: v1.then_some(counts.1),
            max_size: v1.then_some(counts.2),
            base_timestamp_ms: v1.then_some(base_timestamp_ms),
        }
    }
}

prop_compose! {
    fn footers()(
        format in formats(),
        numbers in any::<(u64, u64, u64, u64)>(),
        durable_words in 8..(SEGMENT_BYTES_MAX - 64) / 8,
        last_timestamp_ms in 0..u64::MAX / 1_000_000,
        segment_id in any::<u32>(),
        last_record_id in any::<u64>(),
        sealed_at_ns in 0..i64::MAX as u64,
    ) -> SegmentFooter {
        let v1 = format == SegmentFormat::Compact;
        SegmentFooter {
            format,
            record_count: numbers.0,
            durable_bytes: durable_words * 8,
            segment_crc64: numbers.1,
            ext_id: if v1 { 0 } else { numbers.2 },
            flags: if v1 { FOOTER_SEALED } else { numbers.3 },
            last_timestamp_ms,
            segment_id: v1.then_some(SegmentId::from_u64(u64::from(segment_id))),
            last_record_id: v1.then_some(RecordId::from_u64(last_record_id)),
            sealed_at_ns: v1.then_some(sealed_at_ns),
        }
    }
}

prop_compose! {
    fn bodies()(numbers in any::<(u64, u64, u64, u64)>(), state in 0u64..3) -> WatermarkBody {
        WatermarkBody {
            durable_position: numbers.0,
            durable_count: numbers.1,
            appended_position: numbers.2,
            appended_count: numbers.3,
            state: WatermarkState::from_u64(state).unwrap(),
        }
    }
}

prop_compose! {
    fn identities()(
        name in "[^\\p{Cc}]{1,60}",
        stream_id in 1u64..,
        format in formats(),
        created_at_ns in any::<u64>(),
        lineage in any::<Option<u64>>(),
    ) -> StreamIdentity {
        let stream_id = StreamId::from_u64(stream_id);
        StreamIdentity { name, stream_id, format, created_at_ns, lineage }
    }
}

/// Every copy of `bytes` with one bit changed.
fn flips(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

proptest! {
    #[test]
    fn both_ways_of_computing_the_checksum_agree(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        start in 0usize..17,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let bytes = bytes.get(start..).unwrap_or_default();
        let expected = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes);
        prop_assert_eq!(crc64(bytes), expected);
        prop_assert_eq!(!slicing::advance(!0, bytes), expected);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut pieces = Crc64::new();
        for cut in cuts.windows(2) {
            pieces.update(&bytes[cut[0]..cut[1]]);
            pieces = Crc64::resume(pieces.finish());
        }
        prop_assert_eq!(pieces.finish(), expected);
    }

    #[test]
    fn the_record_checksum_is_that_of_the_documented_bytes(
        meta in metas(), payload in payloads(), stream in any::<u64>(), segment in any::<u64>(),
    ) {
        let len = (payload.len() as u32).to_le_bytes();
        let header = codec(SegmentFormat::Full, stream, segment).encode_header(&meta, &payload);
        let identity = [stream.to_le_bytes(), segment.to_le_bytes()].concat();
        let input = [&identity, &len[..], header.rest(), &payload].concat();
        prop_assert_eq!((header.first_word() >> 32) as u32, fold32(crc64(&input)));
        let header = codec(SegmentFormat::Compact, stream, segment).encode_header(&meta, &payload);
        let input = [&len[..], header.rest(), &payload].concat();
        prop_assert_eq!((header.first_word() >> 32) as u32, fold32(crc64(&input)));
    }

    #[test]
    fn records_round_trip(
        codec in codecs(), meta in metas(), payload in payloads(),
        behind in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = record(&codec, &meta, &payload);
        let record_len = bytes.len();
        prop_assert!(record_len.is_multiple_of(RECORD_ALIGN));
        bytes.extend(behind);
        let found = codec.decode(&bytes).unwrap().unwrap();
        prop_assert_eq!(found.payload, &payload[..]);
        prop_assert_eq!(found.head.record_len as usize, record_len);
        prop_assert_eq!(found.head.timestamp_ms, meta.timestamp_ms);
        let full = codec.format() == SegmentFormat::Full;
        prop_assert_eq!(found.head.logical_offset, full.then_some(meta.logical_offset));
        prop_assert_eq!(found.head.durable_lag, full.then_some(meta.durable_lag));
        prop_assert_eq!(found.head.flags.bits(), if full { meta.flags.bits() } else { 0 });
        prop_assert_eq!(found.gap(), None);
        prop_assert_eq!(codec.peek(&bytes), Ok(Some(found.head)));
        prop_assert_eq!(codec.verify(&bytes, &found.head), Ok(()));
    }

    #[test]
    fn a_record_cut_short_is_truncated(
        codec in codecs(), meta in metas(), payload in payloads(), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = record(&codec, &meta, &payload);
        let cut = cut.index(bytes.len());
        let expected = if cut < 8 {
            Ok(None)
        } else {
            Err(RecordFault::Truncated { needed: bytes.len() as u64, available: cut as u64 })
        };
        prop_assert_eq!(codec.decode(&bytes[..cut]), expected);
    }

    #[test]
    fn records_of_another_segment_or_stream_never_validate(
        meta in metas(), payload in payloads(), ids in any::<(u64, u64)>(), other in any::<(u64, u64)>(),
    ) {
        let bytes = record(&codec(SegmentFormat::Full, ids.0, ids.1), &meta, &payload);
        for (stream, segment) in [(other.0, ids.1), (ids.0, other.1), (ids.0, ids.1.wrapping_add(1))] {
            prop_assume!((stream, segment) != ids);
            let found = codec(SegmentFormat::Full, stream, segment).decode(&bytes);
            let mismatch = matches!(found, Err(RecordFault::Checksum { .. }));
            prop_assert!(mismatch);
        }
    }

    #[test]
    fn gaps_fill_their_region(
        codec in codecs(), offset in any::<u64>(), lost_count in any::<u64>(), region_len in 0usize..400,
    ) {
        let possible = region_len.is_multiple_of(8) && region_len >= codec.header_len() + 8;
        let gap = codec.encode_gap(offset, lost_count, region_len);
        prop_assert_eq!(gap.is_some(), possible);
        if let Some(bytes) = gap {
            let found = codec.decode(&bytes).unwrap().unwrap();
            prop_assert_eq!(found.head.record_len as usize, region_len);
            prop_assert_eq!(found.gap(), Some(Gap { lost_count }));
        }
    }

    #[test]
    fn arbitrary_bytes_never_claim_more_than_there_is(
        codec in codecs(), bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0u32..256,
    ) {
        let mut bytes = bytes;
        // Half of the time a length that has a chance of fitting.
        if let (true, Some(first)) = (len < 128, bytes.first_chunk_mut()) {
            *first = len.to_le_bytes();
        }
        if let Ok(Some(head)) = codec.peek(&bytes) {
            prop_assert!(head.record_len as usize <= bytes.len());
            prop_assert!(head.payload_len > 0);
            let _ = codec.verify(&bytes, &head);
        }
        if let Ok(Some(found)) = codec.decode(&bytes) {
            prop_assert!(found.payload.len() < bytes.len());
        }
        let _ = SegmentHeader::decode(&bytes);
        let _ = SegmentHeaderV1::decode(&bytes);
        let _ = SegmentHeaderV2::decode(&bytes);
        let _ = SegmentFooter::decode(codec.format(), &bytes);
        let _ = WatermarkHeader::decode(&bytes);
        let _ = WatermarkBody::decode(StreamId::from_u64(1), &bytes);
        let _ = StreamIdentity::decode(&bytes);
    }

    #[test]
    fn blocks_round_trip(
        header in headers(), footer in footers(), body in bodies(), identity in identities(),
        writer in any::<(u32, u64, u64)>(),
    ) {
        prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(Some(header)));
        prop_assert_eq!(SegmentFooter::decode(footer.format, &footer.encode()), Ok(Some(footer)));
        let stream_id = StreamId::from_u64(writer.1);
        let bytes = body.encode(stream_id);
        prop_assert_eq!(WatermarkBody::decode(stream_id, &bytes), Ok(body));
        let elsewhere = WatermarkBody::decode(StreamId::from_u64(!writer.1), &bytes);
        prop_assert!(elsewhere.is_err());
        let writer =
            WatermarkHeader { writer_pid: writer.0, stream_id, writer_epoch_ns: writer.2 };
        prop_assert_eq!(WatermarkHeader::decode(&writer.encode()), Ok(writer));
        prop_assert!(identity.encode().len() <= STREAM_IDENTITY_LEN_MAX);
        prop_assert_eq!(StreamIdentity::decode(&identity.encode()), Ok(identity));
    }

    #[test]
    fn file_names_round_trip_and_nothing_else_parses(
        numbers in any::<(u64, u64, u64)>(), at in any::<prop::sample::Index>(), byte in "[ -~é]",
    ) {
        let segment_id = SegmentId::from_u64(numbers.0);
        let segment =
            SegmentFileName { segment_id, base_offset: numbers.1, created_at_ns: numbers.2 };
        let archive = ArchiveFileName { segment_id, sealed_at_ns: numbers.1 };
        let spare = SpareFileName { ordinal: numbers.0 };
        prop_assert_eq!(SegmentFileName::parse(&segment.format()), Some(segment));
        prop_assert_eq!(ArchiveFileName::parse(&archive.format()), Some(archive));
        prop_assert_eq!(SpareFileName::parse(&spare.format()), Some(spare));
        for name in [segment.format(), archive.format(), spare.format()] {
            // Whatever still parses after a change is exactly what would be written.
            let mut name = name;
            let at = at.index(name.len());
            name.replace_range(at..=at, &byte);
            for again in [
                SegmentFileName::parse(&name).map(|parsed| parsed.format()),
                ArchiveFileName::parse(&name).map(|parsed| parsed.format()),
                SpareFileName::parse(&name).map(|parsed| parsed.format()),
            ].into_iter().flatten() {
                prop_assert_eq!(&again, &name);
            }
        }
    }

    #[test]
    fn record_ids_round_trip_as_text_and_order_as_records(
        segment in any::<u32>(), offset in any::<u32>(), other in any::<u64>(),
    ) {
        let id = RecordId::from_parts(segment, offset);
        prop_assert_eq!((id.segment_index(), id.segment_offset()), (segment, offset));
        prop_assert_eq!(id.to_string().parse(), Ok(id));
        prop_assert_eq!(id.as_u64().to_string().parse(), Ok(id));
        let other = RecordId::from_u64(other);
        let parts = |id: RecordId| (id.segment_index(), id.segment_offset());
        prop_assert_eq!(id.cmp(&other), parts(id).cmp(&parts(other)));
    }
}

proptest! {
    // Each case tries every bit.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_flipped_bit_of_a_record_is_detected(
        codec in codecs(), meta in metas(), payload in payloads(),
    ) {
        for flipped in flips(&record(&codec, &meta, &payload)) {
            let accepted = matches!(codec.decode(&flipped), Ok(Some(_)));
            prop_assert!(!accepted);
        }
    }

    #[test]
    fn any_flipped_bit_of_a_block_is_detected(
        header in headers(), footer in footers(), body in bodies(), identity in identities(),
    ) {
        for flipped in flips(&header.encode()) {
            prop_assert!(SegmentHeader::decode(&flipped).is_err());
        }
        for flipped in flips(&footer.encode()) {
            prop_assert!(SegmentFooter::decode(footer.format, &flipped).is_err());
        }
        let stream_id = identity.stream_id;
        for flipped in flips(&body.encode(stream_id)) {
            prop_assert!(WatermarkBody::decode(stream_id, &flipped).is_err());
        }
        let writer = WatermarkHeader { writer_pid: 1, stream_id, writer_epoch_ns: 2 };
        for flipped in flips(&writer.encode()) {
            prop_assert!(WatermarkHeader::decode(&flipped).is_err());
        }
        for flipped in flips(&identity.encode()) {
            prop_assert!(StreamIdentity::decode(&flipped).is_err());
        }
    }
}

/// A block with one field changed and its checksum made to match again: content
/// with a valid checksum can still be hostile.
fn reseal(block: [u8; 64], change: impl FnOnce(&mut [u8; 64])) -> [u8; 64] {
    let mut block = block;
    change(&mut block);
    let crc = crc64(&block[..56]);
    block[56..].copy_from_slice(&crc.to_le_bytes());
    block
}

fn bad_field<T>(result: Result<T, FormatError>) -> &'static str {
    match result {
        Err(FormatError::BadField { field, .. }) => field,
        _ => "",
    }
}

#[test]
fn impossible_fields_are_refused_under_a_valid_checksum() {
    let v2 = SegmentHeaderV2 {
        stream_id: StreamId::from_u64(1),
        segment_id: SegmentId::from_u64(2),
        creation_ts_ms: 3,
    };
    for at in [12, 40, 55] {
        let block = reseal(v2.encode(), |block| block[at] = 1);
        assert_eq!(bad_field(SegmentHeader::decode(&block)), "reserved");
    }
    let late = SegmentHeaderV2 { creation_ts_ms: u64::MAX, ..v2 };
    assert_eq!(bad_field(SegmentHeader::decode(&late.encode())), "creation_ts_ms");
    let v3 = reseal(v2.encode(), |block| block[8] = 3);
    assert_eq!(SegmentHeader::decode(&v3), Err(FormatError::UnsupportedVersion { found: 3 }));

    let v1 = SegmentHeaderV1 {
        segment_index: 1,
        base_record_count: 2,
        base_offset: 3,
        max_size: 4,
        created_at_ns: 5,
        base_timestamp_ns: 6,
    };
    let block = reseal(v1.encode(), |block| block[6] = 63);
    assert_eq!(bad_field(SegmentHeader::decode(&block)), "header_length");
    let block = reseal(v1.encode(), |block| block[39] = 0x80);
    assert_eq!(bad_field(SegmentHeader::decode(&block)), "created_at_ns");
    let block = reseal(v1.encode(), |block| block[48] = 1);
    assert_eq!(bad_field(SegmentHeader::decode(&block)), "reserved");

    for durable_bytes in [0, 63, 65, SEGMENT_BYTES_MAX, u64::MAX - 7] {
        let v2 = SegmentFooterV2 {
            record_count: 1,
            durable_bytes,
            segment_crc64: 2,
            ext_id: 3,
            flags: FOOTER_SEALED | FOOTER_COMPACTED | FOOTER_PARTIAL,
            last_append_ts_ms: 4,
        };
        let found = SegmentFooter::decode(SegmentFormat::Full, &v2.encode());
        assert_eq!(bad_field(found), "durable_bytes");
    }
}

#[test]
fn space_never_written_is_neither_header_nor_footer_nor_record() {
    assert_eq!(SegmentHeader::decode(&[0; 64]), Ok(None));
    assert_eq!(
        SegmentHeader::decode(&[0; 63]),
        Err(FormatError::TooShort { needed: 64, available: 63 })
    );
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        assert_eq!(SegmentFooter::decode(format, &[0; 64]), Ok(None));
        assert_eq!(codec(format, 1, 2).decode(&[0; 4096]), Ok(None));
        assert_eq!(codec(format, 1, 2).decode(&[]), Ok(None));
    }
}

#[test]
fn a_length_that_wraps_is_truncated() {
    for format in [SegmentFormat::Full, SegmentFormat::Compact] {
        let mut bytes = [0xFF; 128];
        let found = codec(format, 1, 2).peek(&bytes);
        assert!(matches!(found, Err(RecordFault::Truncated { available: 128, .. })));
        bytes[..4].fill(0);
        assert_eq!(codec(format, 1, 2).peek(&bytes), Err(RecordFault::EmptyPayload));
    }
}

#[test]
fn a_record_stamped_at_the_end_of_time_is_no_gap() {
    let codec = codec(SegmentFormat::Compact, 1, 2);
    let meta = RecordMeta {
        logical_offset: 0,
        timestamp_ms: u64::MAX,
        flags: RecordFlags::NONE,
        durable_lag: 0,
    };
    let bytes = record(&codec, &meta, &[0; 8]);
    assert_eq!(codec.decode(&bytes).unwrap().unwrap().gap(), None);
}

#[test]
fn names_are_checked() {
    let longest = "é".repeat(127) + "n";
    for name in ["a", " ", "orders/eu", &longest] {
        assert_eq!(validate_name(name), Ok(()));
        let identity = StreamIdentity {
            name: name.into(),
            stream_id: StreamId::legacy_of_name(name),
            format: SegmentFormat::Compact,
            created_at_ns: u64::MAX,
            lineage: Some(u64::MAX),
        };
        assert!(identity.encode().len() <= STREAM_IDENTITY_LEN_MAX);
        assert_eq!(StreamIdentity::decode(&identity.encode()), Ok(identity));
    }
    for name in ["", "a\nb", "\u{7f}", "\u{85}", &"n".repeat(256)] {
        assert_eq!(bad_field(validate_name(name)), "name");
    }
}

#[test]
fn an_identity_written_differently_is_refused() {
    let seal = |text: &str| format!("{text}crc64 {:016x}\n", crc64(text.as_bytes()));
    let text =
        "aof2-stream 1\nname a%2Fb\nstream_id 00000000000000ff\nformat full\ncreated_at_ns 5\n";
    assert!(StreamIdentity::decode(seal(text).as_bytes()).is_ok());
    for (from, to) in [
        ("a%2Fb", "a%2fb"),
        ("a%2Fb", "%61%2Fb"),
        ("a%2Fb", "a/b"),
        ("a%2Fb", "a%2"),
        ("a%2Fb", "a%+1"),
        ("a%2Fb", "%FF"),
        ("a%2Fb", "a%0A"),
        ("00ff", "00FF"),
        ("00ff", "0000"),
        ("full", "zstd"),
        ("created_at_ns 5", "created_at_ns 05"),
        ("created_at_ns 5", "created_at_ns +5"),
        ("created_at_ns 5", "created_at_ns 5\nmore 1"),
        ("\n", "\r\n"),
        ("aof2-stream 1", "aof2-stream 01"),
        // A fork's, without a lineage.
        ("aof2-stream 1", "aof2-stream 2"),
        ("created_at_ns 5", "created_at_ns 5\nlineage 00000000000000ff"),
    ] {
        let changed = seal(&text.replace(from, to));
        let field = bad_field(StreamIdentity::decode(changed.as_bytes()));
        assert_ne!(field, "", "{changed}");
    }
    let newer = seal(&text.replace("stream 1", "stream 3"));
    assert_eq!(
        StreamIdentity::decode(newer.as_bytes()),
        Err(FormatError::UnsupportedVersion { found: 3 })
    );
}

fn lineages() -> impl Strategy<Value = Lineage> {
    let part = (1u64.., 0u32..5, 64u32..1 << 20, 1u64..1_000, 1u32..5_000, "[^\\p{Cc}]{0,20}");
    (1u64.., 0u32..9, any::<u32>(), prop::collection::vec(part, 0..5)).prop_map(
        |(stream_id, segment, offset, parts)| {
            let mut next = (segment, u64::from(offset));
            let mut origins = Vec::new();
            for (origin, segments, position, records, len, name) in parts {
                origins.push(Inheritance {
                    origin: StreamId::from_u64(if origin == stream_id { 1 } else { origin }),
                    first_segment: SegmentId::from_u64(u64::from(next.0)),
                    last_segment: SegmentId::from_u64(u64::from(next.0 + segments)),
                    cut: position + len,
                    first_offset: next.1,
                    end_offset: next.1 + records,
                    last_position: position,
                    last_crc64: origin.rotate_left(7),
                    path: format!("../{name}"),
                    name,
                });
                next = (next.0 + segments + 1, next.1 + records);
            }
            Lineage {
                stream_id: StreamId::from_u64(stream_id.max(2)),
                root: "..".into(),
                start: OwnStart {
                    segment: SegmentId::from_u64(u64::from(next.0)),
                    offset: next.1,
                    bytes: next.1 * 9,
                    timestamp_ms: 3,
                },
                origins,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_lineage_comes_back_and_any_flipped_bit_is_detected(lineage in lineages()) {
        let is_own = |origin: &Inheritance| origin.origin == lineage.stream_id;
        prop_assume!(!lineage.origins.iter().any(is_own));
        let bytes = lineage.encode();
        prop_assert_eq!(Lineage::decode(&bytes), Ok(lineage));
        for flipped in flips(&bytes) {
            prop_assert!(Lineage::decode(&flipped).is_err());
        }
    }

    #[test]
    fn a_hold_comes_back_and_any_flipped_bit_is_detected(
        name in "[^\\p{Cc}]{1,40}",
        numbers in any::<[u32; 3]>(),
        offsets in any::<[u64; 2]>(),
        expires_at_ms in any::<Option<u64>>(),
        is_pending in any::<bool>(),
    ) {
        let hold = Hold {
            origin: StreamId::from_u64(1),
            kind: if is_pending { HolderKind::Fork } else { HolderKind::Snapshot },
            holder: StreamId::from_u64(u64::MAX),
            path: name.clone(),
            name,
            first_segment: SegmentId::from_u64(u64::from(numbers[0])),
            last_segment: SegmentId::from_u64(u64::from(numbers[1])),
            cut: numbers[2],
            first_offset: offsets[0],
            end_offset: offsets[1],
            created_at_ms: offsets[0],
            expires_at_ms,
            is_pending,
        };
        let bytes = hold.encode();
        prop_assert_eq!(Hold::decode(&bytes), Ok(hold));
        for flipped in flips(&bytes) {
            prop_assert!(Hold::decode(&flipped).is_err());
        }
    }
}

#[test]
fn record_ids_are_read_strictly() {
    for text in ["", ":", "1:", ":1", "+1:2", "1:-2", "1:2:3", "4294967296:0", " 1:2", "0x1"] {
        assert!(text.parse::<RecordId>().is_err(), "{text:?}");
    }
    assert_eq!("3:64".parse(), Ok(RecordId::from_parts(3, 64)));
}

#[test]
fn the_codec_stays_small() {
    assert_eq!(size_of::<Crc64>(), 8);
    assert!(size_of::<RecordCodec>() <= 16);
}
