//! The records everybody appends: slices of one block of random bytes.

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
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let pool = std::iter::repeat_with(|| next_random(&mut state).to_le_bytes())
            .take(POOL_LEN / 8)
            .flatten()
            .collect();
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
    let mut state = 0xD1B5_4A32_D192_ED03_u64;
    (0..read_count).map(|_| (next_random(&mut state) % record_count) as u32).collect()
}

fn next_random(state: &mut u64) -> u64 {
    // xorshift64*: one multiplication, passes what matters here.
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}
