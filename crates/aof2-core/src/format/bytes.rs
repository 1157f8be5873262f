//! Little-endian fields at fixed offsets of fixed-size blocks.
//!
//! Every caller holds a block whose length it has already checked. Should one
//! not, a read past the end gives zero instead of a panic: no decoder may be
//! brought down by what is on disk.

/// The first `N` bytes, when there are that many.
#[inline(always)]
pub(super) fn block<const N: usize>(bytes: &[u8]) -> Option<&[u8; N]> {
    bytes.first_chunk::<N>()
}

#[inline(always)]
fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(chunk) => *chunk,
        None => [0; N],
    }
}

/// The `u16` at `at`.
#[inline(always)]
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(chunk_at(bytes, at))
}

/// The `u32` at `at`.
#[inline(always)]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(chunk_at(bytes, at))
}

/// The `u64` at `at`.
#[inline(always)]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(chunk_at(bytes, at))
}

/// Writes a field's bytes at `at`. Blocks and offsets are constants of a layout,
/// so the bounds check disappears.
#[inline(always)]
pub(super) fn put<const N: usize>(block: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(slot) = block.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<N>()) {
        *slot = field;
    }
}

/// Whether every byte is zero: space that was never written.
#[inline]
pub(super) fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
