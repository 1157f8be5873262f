//! Which chunks may leave the local disk.
//!
//! The active chunk stays, and the two latest sealed ones, and everything from the chunk
//! on in which the oldest kept snapshot stands: replay may have to start there. An older
//! chunk goes if it is in the cold tier, where that is required. Chunks go from the
//! oldest on, and the first that must stay ends it, so that what is left has no hole.

use crate::manifest::chunks::ChunkInfo;
use crate::planted;
use crate::planted::ManifestBug;

/// Sealed chunks that always stay.
pub const SEALED_CHUNKS_KEPT: usize = 2;

/// The chunks that may go, oldest first, of the sealed ones there are.
///
/// `snapshot_chunk` is the chunk of the oldest kept snapshot's position; without a
/// snapshot everything stays.
pub fn removable<'a>(
    sealed: impl DoubleEndedIterator<Item = &'a ChunkInfo> + ExactSizeIterator,
    snapshot_chunk: Option<u64>,
    upload_required: bool,
) -> impl Iterator<Item = &'a ChunkInfo> {
    let candidates = sealed.len().saturating_sub(SEALED_CHUNKS_KEPT);
    let floor = match snapshot_chunk {
        _ if planted::has(ManifestBug::RetentionIgnoresSnapshot) => u64::MAX,
        Some(chunk_index) => chunk_index,
        None => 0,
    };
    sealed
        .take(candidates)
        .take_while(move |info| info.chunk_index < floor && (info.is_uploaded || !upload_required))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(uploaded: &[bool]) -> Vec<ChunkInfo> {
        let info = |(i, &is_uploaded): (usize, &bool)| ChunkInfo {
            chunk_index: 10 + i as u64,
            base_record: 0,
            record_count: 1,
            committed_len: 100,
            chunk_crc64: 0,
            is_uploaded,
        };
        uploaded.iter().enumerate().map(info).collect()
    }

    fn gone(uploaded: &[bool], snapshot_chunk: Option<u64>, upload_required: bool) -> usize {
        removable(chunks(uploaded).iter(), snapshot_chunk, upload_required).count()
    }

    #[test]
    fn two_sealed_chunks_the_snapshots_chunk_and_what_is_not_uploaded_stay() {
        assert_eq!(gone(&[true; 5], Some(99), true), 3);
        assert_eq!(gone(&[true; 2], Some(99), true), 0);
        assert_eq!(gone(&[true; 5], Some(11), true), 1, "chunk 11 holds the position");
        assert_eq!(gone(&[true; 5], Some(10), true), 0);
        assert_eq!(gone(&[true; 5], None, true), 0, "no snapshot covers anything");
        assert_eq!(gone(&[true, false, true, true, true], Some(99), true), 1, "no holes");
        assert_eq!(gone(&[false; 5], Some(99), true), 0);
        assert_eq!(gone(&[false; 5], Some(99), false), 3);
    }
}
