//! Frames under valid checksums that no writer of ours makes.

use proptest::prelude::*;

use super::fixture::*;
use crate::error::AofError;
use crate::format::{ArtifactFrame, ArtifactIndex, SegmentFooter, SegmentFormat};
use crate::segment::artifact::Artifact;

fn mixed() -> (Vec<u8>, ArtifactIndex) {
    let bytes = Fixture::mixed(SegmentFormat::Full).artifact(&SMALL);
    let index = open_bytes(bytes.clone()).unwrap().index().clone();
    (bytes, index)
}

/// The same artifact with another first frame, and tables that agree with it.
fn with_first_frame(frame: &[u8], checksum: u32, len: u32) -> Artifact {
    let (bytes, mut index) = mixed();
    let first = index.frames[0];
    let moved = |f: &mut ArtifactFrame| {
        f.compressed_offset =
            f.compressed_offset - u64::from(first.compressed_len) + frame.len() as u64;
    };
    index.frames.iter_mut().skip(1).for_each(moved);
    moved(&mut index.footer);
    index.frames[0].compressed_len = frame.len() as u32;
    index.frames[0].checksum = checksum;
    index.frames[0].len = len;
    let old_end = index.footer.compressed_end() - frame.len() as u64;
    let rest = &bytes[first.compressed_len as usize..][..old_end as usize];
    let forged = [frame, rest, &index.encode_tail()].concat();
    let _ = Artifact::open(Memory::new(forged.clone()));
    // The index may be refused already; frames must not rely on it.
    Artifact::with_index(Memory::new(forged), index)
}

fn reason(error: AofError) -> String {
    match error {
        AofError::Corrupt(damage) => damage.reason,
        other => panic!("{other}"),
    }
}

fn refusals(artifact: &Artifact) -> [String; 2] {
    [reason(artifact.windows(0..1).unwrap_err()), reason(artifact.verify(&mut |_| {}).unwrap_err())]
}

fn content() -> (Vec<u8>, u32) {
    let (bytes, index) = mixed();
    let first = index.frames[0];
    let content = zstd::stream::decode_all(&bytes[..first.compressed_len as usize]).unwrap();
    (content, first.checksum)
}

fn compress(bytes: &[u8], set: impl FnOnce(&mut zstd::Encoder<'_, Vec<u8>>)) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    set(&mut encoder);
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_frame_must_be_one_frame_with_length_and_checksum() {
    let (content, checksum) = content();
    let len = content.len() as u32;
    let honest = compress(&content, |e| {
        e.include_checksum(true).unwrap();
        e.set_pledged_src_size(Some(content.len() as u64)).unwrap();
    });
    with_first_frame(&honest, checksum, len).windows(0..1).unwrap();
    with_first_frame(&honest, checksum, len).verify(&mut |_| {}).unwrap();

    let unknown_len = compress(&content, |e| e.include_checksum(true).unwrap());
    for refused in refusals(&with_first_frame(&unknown_len, checksum, len)) {
        assert!(refused.contains("does not tell its length"), "{refused}");
    }
    let no_checksum = compress(&content, |e| {
        e.set_pledged_src_size(Some(content.len() as u64)).unwrap();
    });
    for refused in refusals(&with_first_frame(&no_checksum, checksum, len)) {
        assert!(refused.contains("without a checksum"), "{refused}");
    }
    for refused in refusals(&with_first_frame(&honest, checksum ^ 1, len)) {
        assert!(refused.contains("in the seek table"), "{refused}");
    }
    for wrong_len in [len - 8, len + 8, u32::MAX - 7] {
        for refused in refusals(&with_first_frame(&honest, checksum, wrong_len)) {
            assert!(refused.contains("in the index"), "{refused}");
        }
    }
    // Something behind the frame, with the right bytes at its end.
    let skippable =
        [&0x184D_2A50_u32.to_le_bytes()[..], &4_u32.to_le_bytes(), &checksum.to_le_bytes()];
    let two = [&honest[..], &skippable.concat()].concat();
    for refused in refusals(&with_first_frame(&two, checksum, len)) {
        assert!(refused.contains("ends before"), "{refused}");
    }
    let cut = &honest[..honest.len() - 1];
    let last = u32::from_le_bytes(*cut.last_chunk().unwrap());
    refusals(&with_first_frame(cut, last, len));
    let skippable = skippable.concat();
    for refused in refusals(&with_first_frame(&skippable, checksum, len)) {
        assert!(refused.contains("not a zstd frame"), "{refused}");
    }
}

/// A frame that decompresses to more than it says is stopped, not followed.
#[test]
fn a_bomb_is_refused_by_its_length() {
    let zeros = vec![0_u8; 64 << 20];
    let bomb = compress(&zeros, |e| {
        e.include_checksum(true).unwrap();
        e.set_pledged_src_size(Some(zeros.len() as u64)).unwrap();
    });
    let checksum = u32::from_le_bytes(*bomb.last_chunk().unwrap());
    for refused in refusals(&with_first_frame(&bomb, checksum, 4_096)) {
        assert!(refused.contains("in the index"), "{refused}");
    }
    // Its header can lie about the length: what counts is what comes out.
    let (_, index) = mixed();
    let mut lying = bomb.clone();
    // Descriptor with a 4-byte length, as 64 MiB need: it follows the window byte.
    assert_eq!(lying[4] >> 6, 2);
    // The last is longer than the window: the decoder itself would not notice before the end.
    for len in [index.frames[0].len, 2 << 20, 8 << 20] {
        lying[6..10].copy_from_slice(&len.to_le_bytes());
        let artifact = with_first_frame(&lying, checksum, len);
        refusals(&artifact);
        let mut seen = 0;
        let streamed = artifact.stream(|_, bytes| {
            seen += bytes.len();
            Ok(())
        });
        assert!(streamed.is_err() && seen <= len as usize, "{seen} of {len} bytes");
    }
}

/// Frame and tables agree, but what the footer's frame holds is not this segment's
/// footer.
#[test]
fn a_footer_that_says_something_else_is_refused() {
    let (bytes, mut index) = mixed();
    let fixture = Fixture::mixed(SegmentFormat::Full);
    let sealed = SegmentFooter::decode(SegmentFormat::Full, &fixture.footer).unwrap().unwrap();
    let mut half_written = fixture.footer;
    half_written[8] ^= 1;
    let footers = [
        SegmentFooter { record_count: sealed.record_count + 1, ..sealed }.encode(),
        SegmentFooter { durable_bytes: sealed.durable_bytes - 8, ..sealed }.encode(),
        SegmentFooter { segment_crc64: 1, ..sealed }.encode(),
        SegmentFooter { ext_id: 1, ..sealed }.encode(),
        SegmentFooter { flags: 0, ..sealed }.encode(),
        SegmentFooter { last_timestamp_ms: u64::MAX, ..sealed }.encode(),
        half_written,
        [0; 64],
    ];
    let start = index.footer.compressed_offset;
    let mut verify = |footer: [u8; 64]| {
        let frame = compress(&footer, |e| {
            e.include_checksum(true).unwrap();
            e.set_pledged_src_size(Some(64)).unwrap();
        });
        index.footer.compressed_len = frame.len() as u32;
        index.footer.checksum = u32::from_le_bytes(*frame.last_chunk().unwrap());
        let forged = [&bytes[..start as usize], &frame, &index.encode_tail()].concat();
        open_bytes(forged).unwrap().verify(&mut |_| {})
    };
    verify(fixture.footer).unwrap();
    for footer in footers {
        match verify(footer).unwrap_err() {
            AofError::Corrupt(damage) => {
                assert!(damage.reason.contains("footer"), "{}", damage.reason);
                assert_eq!(damage.offset, start);
            }
            other => panic!("{other}"),
        }
    }
}

/// Windows larger than any of our levels makes would have to be held in memory.
#[test]
fn a_large_window_is_refused_when_streaming() {
    let len = 20 << 20;
    let content = payload(9, len, false);
    let wide = compress(&content, |e| {
        e.include_checksum(true).unwrap();
        e.window_log(27).unwrap();
        e.long_distance_matching(true).unwrap();
        e.set_pledged_src_size(Some(len as u64)).unwrap();
    });
    let checksum = u32::from_le_bytes(*wide.last_chunk().unwrap());
    let artifact = with_first_frame(&wide, checksum, len as u32);
    let refused = reason(artifact.verify(&mut |_| {}).unwrap_err());
    assert!(refused.contains("memory") || refused.contains("window"), "{refused}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// Whoever can compute checksums can write anything; what opens is read without a
    /// panic and never gives more bytes than the index promises.
    #[test]
    fn changed_artifacts_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        reseal: bool,
    ) {
        let (mut bytes, index) = mixed();
        let end = index.footer.compressed_end() as usize;
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if reseal {
            let crc_at = end + 8 + 136 + index.frames.len() * 24;
            let crc = crate::format::crc64(&bytes[end + 8..crc_at]);
            bytes[crc_at..crc_at + 8].copy_from_slice(&crc.to_le_bytes());
        }
        if let Ok(artifact) = open_bytes(bytes) {
            for i in 0..artifact.index().frames.len() {
                if let Ok(windows) = artifact.windows(i..i + 1) {
                    prop_assert_eq!(windows[0].map().len() as u32, artifact.index().frames[i].len);
                }
            }
            let mut seen = 0;
            let _ = artifact.verify(&mut |bytes| seen = bytes);
            prop_assert!(seen <= u64::from(artifact.index().summary.durable_bytes) + 64);
        }
    }
}
