//! CRC-64/NVME by table, sixteen bytes a step.
//!
//! The carry-less multiplication of `crc-fast` has a fixed cost that a record
//! header does not earn back, so short inputs go through these tables. Sixteen
//! tables (32 KiB) rather than eight, because the eight look-ups for the second
//! word do not wait for the checksum of the first: the chain of dependent loads
//! is half as long.

/// The reflected polynomial of CRC-64/NVME.
const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

const STEP: usize = 16;

/// `TABLES[n][b]` is the state left by byte `b` followed by `n` zero bytes.
static TABLES: [[u64; 256]; STEP] = tables();

const fn tables() -> [[u64; 256]; STEP] {
    let mut tables = [[0u64; 256]; STEP];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            state = if state & 1 == 1 { (state >> 1) ^ POLYNOMIAL } else { state >> 1 };
            bit += 1;
        }
        tables[0][byte] = state;
        byte += 1;
    }
    let mut step = 1;
    while step < STEP {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[step - 1][byte];
            tables[step][byte] = (before >> 8) ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        step += 1;
    }
    tables
}

/// The state left by eight bytes that are followed by `AFTER` more.
#[inline(always)]
fn word<const AFTER: usize>(bytes: [u8; 8]) -> u64 {
    let at = |n: usize| TABLES[AFTER + 7 - n][usize::from(bytes[n])];
    ((at(0) ^ at(1)) ^ (at(2) ^ at(3))) ^ ((at(4) ^ at(5)) ^ (at(6) ^ at(7)))
}

/// The state left by four bytes that nothing follows.
#[inline(always)]
fn half_word(bytes: [u8; 4]) -> u64 {
    let at = |n: usize| TABLES[3 - n][usize::from(bytes[n])];
    (at(0) ^ at(1)) ^ (at(2) ^ at(3))
}

/// Runs `bytes` through the raw checksum register `state`.
#[inline]
pub(super) fn advance(mut state: u64, bytes: &[u8]) -> u64 {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    for step in steps {
        let pair = u128::from_le_bytes(*step);
        let first = (pair as u64) ^ state;
        let second = (pair >> 64) as u64;
        state = word::<8>(first.to_le_bytes()) ^ word::<0>(second.to_le_bytes());
    }
    let (words, rest) = rest.as_chunks::<8>();
    for bytes in words {
        state = word::<0>((u64::from_le_bytes(*bytes) ^ state).to_le_bytes());
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for bytes in halves {
        let first = u32::from_le_bytes(*bytes) ^ (state as u32);
        state = (state >> 32) ^ half_word(first.to_le_bytes());
    }
    for byte in rest {
        state = (state >> 8) ^ TABLES[0][usize::from(*byte ^ (state as u8))];
    }
    state
}

/// Runs whole words through the register, two a step.
#[inline(always)]
pub(super) fn advance_words<const WORDS: usize>(mut state: u64, words: [u64; WORDS]) -> u64 {
    let (pairs, rest) = words.as_chunks::<2>();
    for [first, second] in pairs {
        let first = first ^ state;
        state = word::<8>(first.to_le_bytes()) ^ word::<0>(second.to_le_bytes());
    }
    for last in rest {
        state = word::<0>((last ^ state).to_le_bytes());
    }
    state
}

/// The register from which four zero bytes lead to `state`.
pub(super) fn rewind_half_word(mut state: u64) -> u64 {
    for _ in 0..32 {
        // The polynomial's top bit is set, so a register with its top bit set is
        // one into which the polynomial was just added.
        state = if state >> 63 == 1 { ((state ^ POLYNOMIAL) << 1) | 1 } else { state << 1 };
    }
    state
}
