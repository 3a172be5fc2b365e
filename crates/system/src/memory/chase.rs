//! One access after the other: a cycle of links, one in each cache line, in an order that no prefetcher
//! guesses.

/// Words of a cache line of 64 bytes.
const LINE_WORDS: usize = 8;

/// Links the lines of `words` into one random cycle and gives its length in lines: the largest power of two
/// that fits. Link n leads to line n + 1 of a random order, so that building it is independent writes and not
/// a shuffle, which would take a second for each GB.
pub fn link_cycle(words: &mut [u64], seed: u64) -> usize {
    let lines = words.len() / LINE_WORDS;
    if lines == 0 {
        return 0;
    }
    let bits = lines.ilog2();
    let lines = 1usize << bits;
    let place = |index: usize| scattered(index as u64 & (lines as u64 - 1), bits, seed) as usize * LINE_WORDS;
    let mut here = place(0);
    for index in 1..=lines {
        let next = place(index);
        words[here] = next as u64;
        here = next;
    }
    lines
}

/// Follows `steps` links from `from`; gives where it ends.
pub fn chase(words: &[u64], from: u64, steps: usize) -> u64 {
    let mut at = from;
    for _ in 0..steps {
        at = words[at as usize];
    }
    std::hint::black_box(at)
}

/// A permutation of the numbers below 2^bits: each step (odd multiplication, addition, xor with the upper
/// half) can be undone.
fn scattered(index: u64, bits: u32, seed: u64) -> u64 {
    let mask = (1u64 << bits) - 1;
    let half = bits.div_ceil(2).max(1);
    let mut word = index.wrapping_add(seed) & mask;
    for factor in [0x9e37_79b9_7f4a_7c15u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        word = word.wrapping_mul(factor) & mask;
        word ^= word >> half;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_visits_every_line_once() {
        for words in [8usize, 16, 24, 8 * 1000, 8 * 4096] {
            let mut links = vec![u64::MAX; words];
            let lines = link_cycle(&mut links, 42);
            assert_eq!(lines, 1 << (words / 8).ilog2());
            let mut seen = std::collections::HashSet::new();
            let mut at = 0;
            for _ in 0..lines {
                assert!(at % 8 == 0 && seen.insert(at), "{at} of {lines}");
                at = chase(&links, at, 1);
            }
            assert_eq!(at, 0, "it closes");
        }
        assert_eq!(link_cycle(&mut [0; 7], 1), 0);
    }

    /// Neighbours in the order are no neighbours in memory: less than one step in twenty goes to an adjacent
    /// line.
    #[test]
    fn the_order_is_not_guessed_easily() {
        let mut links = vec![0; 8 * 4096];
        let lines = link_cycle(&mut links, 7);
        let mut at = 0u64;
        let mut strides = std::collections::HashMap::new();
        for _ in 0..lines {
            let next = chase(&links, at, 1);
            *strides.entry(next.wrapping_sub(at)).or_insert(0u32) += 1;
            at = next;
        }
        let most = strides.values().max().copied().unwrap_or(0);
        assert!(most < lines as u32 / 20, "the same stride {most} times of {lines}");
    }
}
