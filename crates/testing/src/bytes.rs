//! Bytes and numbers that look random and are the same in each run.

/// The next number: xorshift64.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The content of a file; each seed has its own.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        all.extend_from_slice(&next(&mut state).to_le_bytes());
    }
    all.truncate(bytes);
    all
}
