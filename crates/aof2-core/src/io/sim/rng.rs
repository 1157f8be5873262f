//! The one source of chance: a splitmix64 generator, so that a seed printed by a
//! failing test replays the same crash on any machine and any version.

#[derive(Clone, Debug)]
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// An independent generator for item `index`: what happens to one file must
    /// not depend on how many draws another one needed.
    pub(super) fn fork(&self, index: u64) -> Self {
        let mut child = Self::new(self.state ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        child.next();
        child
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 when `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // The high half of a product: close enough to uniform, without division.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub(super) fn pick<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        const { assert!(N > 0) };
        choices[self.below(N as u64) as usize]
    }
}
