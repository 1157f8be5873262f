//! One zstd frame, compressed or decompressed. Nothing else of the crate calls zstd.
//!
//! libzstd writes the low half of the XXH64 of a frame's content behind it and compares
//! it when decompressing. The seek table holds the same number, so it is copied when
//! writing and compared when reading, and nothing is hashed twice.

use std::fmt;

use bytes::Bytes;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, ResetDirective,
    compress_bound, find_frame_compressed_size, get_error_name, get_frame_content_size,
};

use crate::format::ArtifactFrame;

/// Highest level: those above use windows that a reader would have to hold in memory.
pub(super) const LEVEL_MAX: i32 = 19;
/// Log of the largest window that a level up to [`LEVEL_MAX`] uses.
const WINDOW_LOG_MAX: u32 = 23;
/// Decompressed bytes that are handed out at once. Frames up to this length are
/// decompressed in one go.
pub(super) const PIECE_LEN_MAX: usize = 1 << 20;

pub(super) const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
/// In the byte behind the magic: a content checksum follows the frame.
const CHECKSUM_FLAG: u8 = 1 << 2;
pub(super) const CHECKSUM_LEN: usize = 4;

/// Why bytes are not the frame that the index promises, or cannot be made one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrameFault(String);

impl FrameFault {
    fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    fn zstd(code: ErrorCode) -> Self {
        Self(format!("zstd: {}", get_error_name(code)))
    }
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a sink may answer besides yes.
pub(super) enum FrameError<E> {
    /// The frame is not what it should be.
    Fault(FrameFault),
    /// Whoever takes the bytes failed.
    Sink(E),
}

/// Compresses frames, one after the other, with one context.
pub(super) struct FrameEncoder {
    context: CCtx<'static>,
    out: Vec<u8>,
}

/// A frame that was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EncodedFrame {
    pub(super) compressed_len: u32,
    pub(super) checksum: u32,
}

impl FrameEncoder {
    /// Frames of up to `frame_len` bytes are compressed in one go.
    pub(super) fn new(level: i32, frame_len: usize) -> Result<Self, FrameFault> {
        let mut context = CCtx::try_create().ok_or_else(out_of_memory)?;
        for parameter in [
            CParameter::CompressionLevel(level),
            CParameter::ChecksumFlag(true),
            CParameter::ContentSizeFlag(true),
        ] {
            context.set_parameter(parameter).map_err(FrameFault::zstd)?;
        }
        Ok(Self { context, out: reserved(compress_bound(frame_len))? })
    }

    /// Compresses `bytes` to one frame and gives it to `sink`, in pieces if it is long.
    pub(super) fn encode<E>(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<EncodedFrame, FrameError<E>> {
        let mut input = InBuffer::around(bytes);
        let mut compressed_len = 0_u64;
        let mut last = [0; CHECKSUM_LEN];
        loop {
            self.out.clear();
            let mut output = OutBuffer::around(&mut self.out);
            // Being told the end at once, zstd knows the frame's length in advance.
            let remaining = self
                .context
                .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_end)
                .map_err(|code| FrameError::Fault(FrameFault::zstd(code)))?;
            keep_last(&mut last, &self.out);
            compressed_len += self.out.len() as u64;
            sink(&self.out).map_err(FrameError::Sink)?;
            if remaining == 0 {
                break;
            }
        }
        let compressed_len = u32::try_from(compressed_len)
            .map_err(|_| FrameError::Fault(FrameFault::new("frame longer than 4 GiB")))?;
        Ok(EncodedFrame { compressed_len, checksum: u32::from_le_bytes(last) })
    }
}

/// Decompresses frames, one after the other, with one context. What a frame claims is
/// compared with its index entry before memory is allocated for it.
pub(super) struct FrameDecoder {
    context: DCtx<'static>,
    out: Vec<u8>,
}

impl FrameDecoder {
    pub(super) fn new() -> Result<Self, FrameFault> {
        let mut context = DCtx::try_create().ok_or_else(out_of_memory)?;
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .map_err(FrameFault::zstd)?;
        Ok(Self { context, out: Vec::new() })
    }

    /// The decompressed bytes of a frame.
    pub(super) fn whole(
        &mut self,
        frame: &ArtifactFrame,
        compressed: &[u8],
    ) -> Result<Vec<u8>, FrameFault> {
        check_header(frame, compressed)?;
        check_checksum(frame, compressed)?;
        let found = find_frame_compressed_size(compressed).map_err(FrameFault::zstd)?;
        if found != compressed.len() {
            return Err(FrameFault::new("the frame ends before its place does"));
        }
        let mut bytes = reserved(frame.len as usize)?;
        self.context.decompress(&mut bytes, compressed).map_err(FrameFault::zstd)?;
        check_len(frame, bytes.len() as u64)?;
        Ok(bytes)
    }

    /// Decompresses a frame that comes in pieces, and hands it on in pieces. The first
    /// piece is not shorter than a frame's header.
    pub(super) fn pieces<E>(
        &mut self,
        frame: &ArtifactFrame,
        compressed: impl IntoIterator<Item = Result<Bytes, E>>,
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), FrameError<E>> {
        self.start(frame).map_err(FrameError::Fault)?;
        let mut produced = 0;
        let mut is_first = true;
        let mut last = [0; CHECKSUM_LEN];
        let mut is_complete = false;
        for piece in compressed {
            let piece = piece.map_err(FrameError::Sink)?;
            if std::mem::take(&mut is_first) {
                check_header(frame, &piece).map_err(FrameError::Fault)?;
            }
            keep_last(&mut last, &piece);
            let mut input = InBuffer::around(&piece);
            while !is_complete {
                is_complete = self.step(&mut input).map_err(FrameError::Fault)?;
                produced += self.out.len() as u64;
                if produced > u64::from(frame.len) {
                    return Err(FrameError::Fault(wrong_len(frame, produced)));
                }
                sink(&self.out).map_err(FrameError::Sink)?;
                let has_space = self.out.len() < self.out.capacity();
                if input.pos() == piece.len() && has_space {
                    break;
                }
            }
            if input.pos() != piece.len() {
                let early = FrameFault::new("the frame ends before its place does");
                return Err(FrameError::Fault(early));
            }
        }
        check_last(frame, last)
            .and_then(|()| check_len(frame, produced))
            .and_then(|()| match is_complete {
                true => Ok(()),
                false => Err(FrameFault::new("the frame does not end where its place does")),
            })
            .map_err(FrameError::Fault)
    }

    fn start(&mut self, frame: &ArtifactFrame) -> Result<(), FrameFault> {
        // A frame that failed half-way leaves its state behind.
        self.context.reset(ResetDirective::SessionOnly).map_err(FrameFault::zstd)?;
        let wanted = (frame.len as usize).min(PIECE_LEN_MAX);
        if self.out.capacity() < wanted {
            self.out = reserved(wanted)?;
        }
        Ok(())
    }

    /// Fills the output; whether that was the frame's end.
    fn step(&mut self, input: &mut InBuffer<'_>) -> Result<bool, FrameFault> {
        self.out.clear();
        let mut output = OutBuffer::around(&mut self.out);
        let hint = self.context.decompress_stream(&mut output, input).map_err(FrameFault::zstd)?;
        Ok(hint == 0)
    }
}

/// How long the content is by a frame's header; `None` if this is none.
pub(super) fn claimed_len(header: &[u8]) -> Option<u64> {
    header.starts_with(&MAGIC).then(|| get_frame_content_size(header).ok().flatten()).flatten()
}

/// How long the frame is that these bytes start with, if all of it is there.
pub(super) fn compressed_len(bytes: &[u8]) -> Option<usize> {
    find_frame_compressed_size(bytes).ok()
}

/// The most that so much content is compressed to.
pub(super) fn compressed_len_max(len: usize) -> usize {
    compress_bound(len)
}

fn check_header(frame: &ArtifactFrame, compressed: &[u8]) -> Result<(), FrameFault> {
    let descriptor = compressed
        .strip_prefix(&MAGIC)
        .and_then(|rest| rest.first())
        .ok_or_else(|| FrameFault::new("not a zstd frame"))?;
    if descriptor & CHECKSUM_FLAG == 0 {
        return Err(FrameFault::new("a frame without a checksum"));
    }
    match get_frame_content_size(compressed) {
        Ok(Some(len)) if len == u64::from(frame.len) => Ok(()),
        Ok(Some(len)) => Err(wrong_len(frame, len)),
        Ok(None) | Err(_) => Err(FrameFault::new("a frame that does not tell its length")),
    }
}

fn check_checksum(frame: &ArtifactFrame, compressed: &[u8]) -> Result<(), FrameFault> {
    let last = compressed.last_chunk().ok_or_else(|| FrameFault::new("not a zstd frame"))?;
    check_last(frame, *last)
}

fn check_last(frame: &ArtifactFrame, last: [u8; CHECKSUM_LEN]) -> Result<(), FrameFault> {
    let found = u32::from_le_bytes(last);
    if found != frame.checksum {
        let expected = frame.checksum;
        return Err(FrameFault(format!(
            "frame checksum {found:#010x}, {expected:#010x} in the seek table"
        )));
    }
    Ok(())
}

fn check_len(frame: &ArtifactFrame, found: u64) -> Result<(), FrameFault> {
    if found == u64::from(frame.len) { Ok(()) } else { Err(wrong_len(frame, found)) }
}

fn wrong_len(frame: &ArtifactFrame, found: u64) -> FrameFault {
    FrameFault(format!("frame of {found} bytes, {} in the index", frame.len))
}

/// Keeps the last bytes of what came in pieces.
fn keep_last(last: &mut [u8; CHECKSUM_LEN], piece: &[u8]) {
    for byte in piece.get(piece.len().saturating_sub(CHECKSUM_LEN)..).unwrap_or_default() {
        last.rotate_left(1);
        last[CHECKSUM_LEN - 1] = *byte;
    }
}

fn reserved(len: usize) -> Result<Vec<u8>, FrameFault> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| out_of_memory())?;
    Ok(bytes)
}

fn out_of_memory() -> FrameFault {
    FrameFault::new("not enough memory")
}
