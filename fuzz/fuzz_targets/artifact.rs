//! An artifact that opens is read without a panic, gives exactly the bytes its index
//! promises, and encodes to the same tail; nothing that is hostile costs much memory.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use aof2_core::format::{ArtifactIndex, crc64};
use aof2_core::segment::{Artifact, ArtifactSource};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// Bytes that a run decompresses at most: a hostile index may rightly promise 32,768
/// times its length.
const SEGMENT_LEN_MAX: u32 = 16 << 20;

#[derive(Debug)]
struct Memory(Bytes);

impl ArtifactSource for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, len: usize) -> aof2_core::Result<Bytes> {
        let offset = usize::try_from(offset).unwrap();
        Ok(self.0.slice(offset..offset + len))
    }

    fn name(&self) -> &Path {
        Path::new("fuzz")
    }
}

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if let Some(resealed) = resealed(bytes) {
        check(&resealed);
    }
});

fn check(bytes: &[u8]) {
    let Ok(artifact) = Artifact::open(Arc::new(Memory(Bytes::copy_from_slice(bytes)))) else {
        return;
    };
    let index = artifact.index();
    assert_eq!(index.artifact_len(), bytes.len() as u64);
    let tail = index.encode_tail();
    assert!(bytes.ends_with(&tail));
    assert_eq!(ArtifactIndex::decode_kept_tail(&tail).as_ref(), Ok(index));
    if index.summary.durable_bytes > SEGMENT_LEN_MAX {
        return;
    }
    let mut are_readable = true;
    for (i, frame) in index.frames.iter().enumerate() {
        match artifact.windows(i..i + 1) {
            Ok(windows) => {
                assert_eq!(windows[0].map().len(), frame.len as usize);
                assert_eq!(windows[0].window_range().start, frame.position);
                assert_eq!(index.frame_at(frame.position), Some(i));
            }
            Err(_) => are_readable = false,
        }
    }
    let mut done = 0;
    let verified = artifact.verify(&mut |bytes| done = bytes);
    assert!(done <= u64::from(index.summary.durable_bytes) + 64);
    // Piece by piece and at once are two ways through a frame.
    if verified.is_ok() {
        assert!(are_readable);
        assert_eq!(done, u64::from(index.summary.durable_bytes) + 64);
    }
}

/// The same bytes with an index whose checksum matches, so that what is behind it gets
/// fuzzed too.
fn resealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let tail_len = usize::try_from(ArtifactIndex::tail_len(bytes).ok()?).ok()?;
    let start = bytes.len().checked_sub(tail_len)?;
    let content_len = u32::from_le_bytes(*bytes.get(start + 4..)?.first_chunk()?) as usize;
    let end = (start + 8).checked_add(content_len)?.checked_sub(8)?;
    let mut resealed = bytes.to_vec();
    let crc = crc64(bytes.get(start + 8..end)?);
    resealed.get_mut(end..end + 8)?.copy_from_slice(&crc.to_le_bytes());
    Some(resealed)
}
