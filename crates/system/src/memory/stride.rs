//! Words of 4 bytes at a distance from each other: openBench's stride test.

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
}
