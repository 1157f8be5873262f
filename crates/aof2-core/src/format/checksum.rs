//! CRC-64/NVME, the one checksum of every file of the log.
//!
//! Parameters: polynomial 0xAD93D23594C93659 reflected, register starts at all
//! ones, result inverted; the check value of `123456789` is 0xAE8B14860A799888.
//! S3 stores the same checksum with an object (`CRC64NVME`).
//!
//! Long inputs go through `crc-fast`, short ones through [`super::slicing`]; the
//! two agree on every length, which a test shows. Nothing outside this file
//! knows which crate does the work.

use super::slicing;
use crc_fast::{CrcAlgorithm, Digest, checksum};

/// Inputs shorter than this are faster by table than through `crc-fast`.
const BY_TABLE_LEN_MAX: usize = 64;

/// `crc-fast` works in blocks of this length on a vector's boundary once an
/// input is at least this long, and pays a whole extra reduction for the bytes in
/// front of the first block and for those behind the last.
const BLOCK_LEN: usize = 128;
const VECTOR_LEN: usize = 16;
/// Bytes behind the last block that are cheaper by table than by that reduction.
const TAIL_BY_TABLE_LEN_MAX: usize = 24;

/// Payloads of a frame from here on are faster copied beside its header and
/// through `crc-fast` at once than by table.
const FRAME_COPY_LEN_MIN: usize = 24;
/// The longest frame that is copied.
const FRAME_COPY_LEN_MAX: usize = 256;

/// The checksum of `bytes`.
#[inline]
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(bytes);
    crc.finish()
}

/// Folds a checksum to 32 bits by xor of its halves.
#[inline]
pub const fn fold32(crc: u64) -> u32 {
    (crc >> 32) as u32 ^ crc as u32
}

/// A checksum in progress: eight bytes, copied freely.
///
/// Copying one after a common prefix (a segment's identity) saves computing the
/// prefix again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc64 {
    /// The raw register, not yet inverted.
    state: u64,
}

impl Crc64 {
    /// The checksum of nothing.
    #[inline]
    pub const fn new() -> Self {
        Self { state: u64::MAX }
    }

    /// Continues from a finished checksum, as if its bytes had just been passed
    /// to [`update`](Self::update).
    #[inline]
    pub const fn resume(finished: u64) -> Self {
        Self { state: !finished }
    }

    /// Adds `bytes`.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.state = if bytes.len() < BY_TABLE_LEN_MAX {
            slicing::advance(self.state, bytes)
        } else {
            advance_long(self.state, bytes)
        };
    }

    /// The checksum of everything added so far.
    #[inline]
    pub const fn finish(&self) -> u64 {
        !self.state
    }
}

impl Default for Crc64 {
    fn default() -> Self {
        Self::new()
    }
}

/// Kept out of line: it puts the 250-byte digest of `crc-fast` on the stack.
#[inline(never)]
fn advance_long(mut state: u64, mut bytes: &[u8]) -> u64 {
    if bytes.len() >= BLOCK_LEN {
        let unaligned_len = bytes.as_ptr().align_offset(VECTOR_LEN).min(bytes.len());
        if unaligned_len > 0 {
            let (unaligned, aligned) = bytes.split_at(unaligned_len);
            state = slicing::advance(state, unaligned);
            bytes = aligned;
        }
    }
    let (blocks, tail) = split_tail(bytes);
    // The digest's state is the raw register: no inversion on the way in or out.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Nvme, state);
    digest.update(blocks);
    advance_tail(digest.get_state(), tail)
}

/// Most inputs have no tail, and should not pay for finding that out in a loop.
#[inline]
fn advance_tail(state: u64, tail: &[u8]) -> u64 {
    if tail.is_empty() { state } else { slicing::advance(state, tail) }
}

/// Splits off a short tail behind the last block; see [`BLOCK_LEN`].
#[inline]
fn split_tail(bytes: &[u8]) -> (&[u8], &[u8]) {
    let tail_len = bytes.len() % BLOCK_LEN;
    if bytes.len() > BLOCK_LEN && tail_len < TAIL_BY_TABLE_LEN_MAX {
        bytes.split_at(bytes.len() - tail_len)
    } else {
        (bytes, &[])
    }
}

/// The checksum of frames that share a prefix: `prefix, u32, u64.., payload`.
///
/// This is the shape of a record, and the reason for a type of its own is that
/// the checksum of a small record costs less this way than that of its payload
/// alone through [`Crc64`]. The register is kept as it would have been *four zero
/// bytes before* the end of the prefix, so that the odd `u32` fills up to a whole
/// word and the frame becomes aligned words; and a register can be carried into
/// `crc-fast`'s one-shot function, which is faster than its resumable digest, by
/// xor into the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameCrc {
    state: u64,
}

impl FrameCrc {
    /// Frames that start with what `prefix` has seen.
    pub fn new(prefix: Crc64) -> Self {
        Self { state: slicing::rewind_half_word(prefix.state) }
    }

    /// The checksum of prefix, `words` without the low half of the first, which
    /// must be zero, and payload.
    #[inline]
    pub fn checksum<const WORDS: usize>(&self, words: [u64; WORDS], payload: &[u8]) -> u64 {
        let copied_len = WORDS * 8 + payload.len();
        if payload.len() >= FRAME_COPY_LEN_MIN && copied_len <= FRAME_COPY_LEN_MAX {
            return self.checksum_copied(words, payload);
        }
        let mut crc = Crc64 { state: slicing::advance_words(self.state, words) };
        crc.update(payload);
        crc.finish()
    }

    #[inline]
    fn checksum_copied<const WORDS: usize>(&self, words: [u64; WORDS], payload: &[u8]) -> u64 {
        /// On a vector's boundary, see [`BLOCK_LEN`].
        #[repr(align(16))]
        struct Frame([u8; FRAME_COPY_LEN_MAX]);

        let mut frame = Frame([0; FRAME_COPY_LEN_MAX]);
        let (head, rest) = frame.0.split_at_mut(WORDS * 8);
        for (slot, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        let first = words[0] ^ self.state ^ Crc64::new().state;
        head[..8].copy_from_slice(&first.to_le_bytes());
        rest[..payload.len()].copy_from_slice(payload);
        let (blocks, tail) = split_tail(&frame.0[..WORDS * 8 + payload.len()]);
        let mut crc = Crc64::resume(checksum(CrcAlgorithm::Crc64Nvme, blocks));
        crc.state = advance_tail(crc.state, tail);
        crc.finish()
    }
}
