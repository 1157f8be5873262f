//! The frames of an artifact by themselves, whatever its index says of them.
//!
//! A frame tells how long it is and proves its content by a checksum of its own. So one
//! whose entry in the seek table is wrong can be read all the same, and if index and
//! seek table are lost, the frames are found one behind the other.

use std::ops::Range;

use super::ArtifactSource;
use super::frames;
use super::frames::{CHECKSUM_LEN, FrameDecoder, MAGIC};
use super::read::read_exact;
use crate::error::{AofError, Result};
use crate::format::{ArtifactFrame, SEGMENT_BYTES_MAX};

/// Bytes that hold the header of any frame.
const HEADER_LEN_MAX: u64 = 18;
/// Bytes in which the next frame is searched for at once.
const SEARCH_LEN: u64 = 1 << 20;

/// A stretch of an artifact.
#[derive(Debug)]
pub(crate) enum Stretch {
    /// A frame that is what it says. Only its place, length and checksum are known.
    Frame(ArtifactFrame, Vec<u8>),
    /// Bytes up to the next such frame or to the end.
    Damaged {
        /// Bytes of the artifact.
        place: Range<u64>,
        /// Length of the content by what looks like a frame's header at its start.
        claimed_len: Option<u32>,
    },
}

/// The frame that starts at this byte, if it is one and proves itself.
pub(crate) fn frame_at(
    source: &dyn ArtifactSource,
    at: u64,
) -> Result<Option<(ArtifactFrame, Vec<u8>)>> {
    let Some(len) = claimed_len(source, at)? else { return Ok(None) };
    // No frame is longer than this, so a wrong length costs no more.
    let end =
        source.len().min(at + frames::compressed_len_max(len as usize) as u64 + HEADER_LEN_MAX);
    let bytes = read_exact(source, at..end)?;
    let found = frames::compressed_len(&bytes);
    let Some(bytes) = found.and_then(|found| bytes.get(..found)) else { return Ok(None) };
    let Some(checksum) = bytes.last_chunk::<CHECKSUM_LEN>() else { return Ok(None) };
    let frame = ArtifactFrame {
        position: 0,
        len,
        first_offset: 0,
        timestamp_before_ms: 0,
        compressed_offset: at,
        compressed_len: bytes.len() as u32,
        checksum: u32::from_le_bytes(*checksum),
    };
    let mut decoder = FrameDecoder::new().map_err(|fault| {
        let error = std::io::Error::other(fault.to_string());
        AofError::io("read compressed segment", source.name())(error)
    })?;
    Ok(decoder.whole(&frame, bytes).ok().map(|content| (frame, content)))
}

/// Hands on everything from the start to the end, stretch by stretch.
pub(crate) fn stretches(
    source: &dyn ArtifactSource,
    mut visit: impl FnMut(Stretch) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while at < source.len() {
        if let Some((frame, bytes)) = frame_at(source, at)? {
            at = frame.compressed_end();
            visit(Stretch::Frame(frame, bytes))?;
            continue;
        }
        let mut next = at;
        loop {
            next = next_magic(source, next + 1)?.unwrap_or(source.len());
            if next == source.len() || frame_at(source, next)?.is_some() {
                break;
            }
        }
        let claimed_len = claimed_len(source, at)?;
        visit(Stretch::Damaged { place: at..next, claimed_len })?;
        at = next;
    }
    Ok(())
}

/// How long the content of the frame is by the frame's header.
fn claimed_len(source: &dyn ArtifactSource, at: u64) -> Result<Option<u32>> {
    let header = read_exact(source, at..source.len().min(at + HEADER_LEN_MAX))?;
    let len = frames::claimed_len(&header);
    Ok(len.filter(|&len| len <= SEGMENT_BYTES_MAX).map(|len| len as u32))
}

fn next_magic(source: &dyn ArtifactSource, from: u64) -> Result<Option<u64>> {
    let mut at = from;
    while at + (MAGIC.len() as u64) <= source.len() {
        let bytes = read_exact(source, at..source.len().min(at + SEARCH_LEN))?;
        if let Some(found) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) {
            return Ok(Some(at + found as u64));
        }
        // One that begins in the last bytes is seen by the next look.
        at += (bytes.len() - MAGIC.len() + 1) as u64;
    }
    Ok(None)
}
