//! The records everybody appends: slices of one block of random bytes.

use fastrand::Rng;

const POOL_LEN: usize = 1 << 20;
const STRIDE: usize = 64;

/// Incompressible payloads of one length, small enough to stay in the cache,
/// so that no round measures where its source bytes came from.
pub struct Payloads {
    pool: Vec<u8>,
    len: usize,
    last_start: usize,
}

impl Payloads {
    pub fn new(len: usize) -> Self {
        assert!(len < POOL_LEN / 2, "the payload pool holds 512 KiB payloads at most");
        let mut pool = vec![0; POOL_LEN];
        Rng::with_seed(1).fill(&mut pool);
        // Sixteen starts per KiB within the first 64 KiB: different bytes for
        // neighbouring records, and a source that fits the second-level cache.
        let last_start = (64 << 10) / STRIDE;
        Payloads { pool, len, last_start }
    }

    #[inline]
    pub fn get(&self, ordinal: u64) -> &[u8] {
        let start = (ordinal as usize % self.last_start) * STRIDE;
        &self.pool[start..start + self.len]
    }
}

/// Ordinals `0..record_count` drawn `read_count` times in an order the
/// prefetcher cannot guess.
pub fn random_ordinals(record_count: u64, read_count: usize) -> Vec<u32> {
    let mut rng = Rng::with_seed(2);
    (0..read_count).map(|_| rng.u64(..record_count) as u32).collect()
}
