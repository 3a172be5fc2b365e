//! Walks that a cache or a prefetcher helps less and less. Words of 4 bytes at a distance from each other:
//! openBench's stride test. One access after the other: a cycle of links, one in each cache line, in an order
//! that no prefetcher guesses.

/// What is done with each word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strided {
    Read,
    Write,
    /// From one array to the other.
    Copy,
    /// `to = one + 3 × other` in single precision.
    Triad,
}

/// One pass: words `offset`, `offset + step`, `offset + 2 step` … of each array (counted in words of 4
/// bytes), as far as the shortest reaches. Gives the number of words touched in each array; `to` is also what
/// is read where there is only one array.
pub fn strided(
    work: Strided,
    to: &mut [u64],
    one: &[u64],
    other: &[u64],
    offset: usize,
    step: usize,
) -> usize {
    let (to, one, other) = (halves_mut(to), halves(one), halves(other));
    let length = match work {
        Strided::Read | Strided::Write => to.len(),
        Strided::Copy => to.len().min(one.len()),
        Strided::Triad => to.len().min(one.len()).min(other.len()),
    };
    if step == 0 || offset >= length {
        return 0;
    }
    let count = (length - offset).div_ceil(step);
    match work {
        Strided::Read => {
            std::hint::black_box(sum(&to[..length], offset, step, count));
        }
        Strided::Write => to[offset..length].iter_mut().step_by(step).for_each(|word| *word = ONE),
        Strided::Copy => {
            let pairs = to[offset..length].iter_mut().step_by(step).zip(one[offset..].iter().step_by(step));
            pairs.for_each(|(to, one)| *to = *one);
        }
        Strided::Triad => {
            let sources = one[offset..].iter().step_by(step).zip(other[offset..].iter().step_by(step));
            let all = to[offset..length].iter_mut().step_by(step).zip(sources);
            all.for_each(|(to, (one, other))| {
                *to = (f32::from_bits(*one) + 3.0 * f32::from_bits(*other)).to_bits();
            });
        }
    }
    std::hint::black_box(to);
    count
}

/// 1.0: also as half of a double it is a normal number, which later kernels add without delay.
const ONE: u32 = 0x3f80_0000;

/// Four sums, so that the adder's latency does not hold the loads.
fn sum(words: &[u32], offset: usize, step: usize, count: usize) -> u32 {
    let mut sums = [0u32; 4];
    let mut at = offset;
    for _ in 0..count / 4 {
        for (turn, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_add(words[at + turn * step]);
        }
        at += 4 * step;
    }
    for _ in 0..count % 4 {
        sums[0] = sums[0].wrapping_add(words[at]);
        at += step;
    }
    sums.iter().fold(0, |sum, part| sum.wrapping_add(*part))
}

fn halves(words: &[u64]) -> &[u32] {
    // SAFETY: a u64 is two u32 of weaker alignment; any bits are a number.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 2) }
}

fn halves_mut(words: &mut [u64]) -> &mut [u32] {
    // SAFETY: as above, and the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 2) }
}

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
    fn only_the_words_at_the_stride_are_touched() {
        let mut to = vec![0u64; 512];
        let touched = strided(Strided::Write, &mut to, &[], &[], 3, 16);
        let written = halves(&to).iter().enumerate().filter(|(_, word)| **word == ONE);
        let places: Vec<usize> = written.map(|(at, _)| at).collect();
        assert_eq!(places.len(), touched);
        assert!(places.iter().all(|at| at % 16 == 3));
        assert_eq!(touched, 64);
    }

    #[test]
    fn sums_cover_the_rest_too() {
        let words: Vec<u32> = (0..103).collect();
        let want: u32 = (2..103).step_by(5).sum();
        assert_eq!(sum(&words, 2, 5, (103usize - 2).div_ceil(5)), want);
        assert_eq!(strided(Strided::Read, &mut [0; 4], &[], &[], 8, 1), 0, "nothing there");
    }

    #[test]
    fn copies_and_triads_at_a_stride() {
        let one = vec![u64::from(1.0f32.to_bits()); 8];
        let mut to = vec![0u64; 8];
        assert_eq!(strided(Strided::Copy, &mut to, &one, &[], 0, 4), 4);
        assert_eq!(to, [one[0], 0, one[0], 0, one[0], 0, one[0], 0]);
        assert_eq!(strided(Strided::Triad, &mut to, &one, &one, 0, 2), 8);
        assert!(to.iter().all(|word| *word == u64::from(4.0f32.to_bits())));
    }

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

    /// Neighbours in the order are not neighbours in memory: less than one step in twenty goes to an adjacent
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
