//! The kernel that only loads: a sum over every word, in eight vectors at once so that no addition waits for
//! the one before it.
//!
//! Intrinsics, because the compiler kept an array of sums in memory and stored it on each turn: 64 GB/s from
//! a first-level cache that gives three times as much.

/// Sums the buffer so that every word of it is read; the sum keeps the compiler from leaving the reads out.
pub fn read_all(buffer: &[u64]) -> u64 {
    let chunks = buffer.chunks_exact(64);
    let rest = chunks.remainder().iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
    let whole = &buffer[..buffer.len() - chunks.remainder().len()];
    rest.wrapping_add(sum_whole(whole))
}

/// Of a whole number of 64 words.
fn sum_whole(words: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY (all three): the feature is detected, or part of every x86-64; the length is a multiple of
        // 64.
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: as above.
            return unsafe { avx512::sum(words) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { avx2::sum(words) };
        }
        // SAFETY: as above.
        unsafe { sse2::sum(words) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// The same loop for each width.
#[cfg(target_arch = "x86_64")]
macro_rules! width {
    ($name:ident, $feature:literal, $vector:ident, $words:literal, $zero:ident, $load:ident, $add:ident) => {
        mod $name {
            use std::arch::x86_64::*;

            /// # Safety
            /// The processor has the feature; the length is a multiple of 64.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn sum(words: &[u64]) -> u64 {
                let mut sums = [$zero(); 8];
                let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = sums;
                let start = words.as_ptr().cast::<$vector>();
                let mut at = 0;
                while at < words.len() / $words {
                    // SAFETY: eight vectors from `at` lie within the words, by their multiple of 64; the load
                    // needs no alignment.
                    unsafe {
                        a = $add(a, $load(start.add(at)));
                        b = $add(b, $load(start.add(at + 1)));
                        c = $add(c, $load(start.add(at + 2)));
                        d = $add(d, $load(start.add(at + 3)));
                        e = $add(e, $load(start.add(at + 4)));
                        f = $add(f, $load(start.add(at + 5)));
                        g = $add(g, $load(start.add(at + 6)));
                        h = $add(h, $load(start.add(at + 7)));
                    }
                    at += 8;
                }
                sums = [a, b, c, d, e, f, g, h];
                let mut total = 0u64;
                for vector in sums {
                    // SAFETY: a vector is this many words, any bits are a number.
                    let words: [u64; $words] = unsafe { std::mem::transmute(vector) };
                    total = words.iter().fold(total, |total, word| total.wrapping_add(*word));
                }
                total
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
width!(avx512, "avx512f", __m512i, 8, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_add_epi64);
#[cfg(target_arch = "x86_64")]
width!(avx2, "avx2", __m256i, 4, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_add_epi64);
#[cfg(target_arch = "x86_64")]
width!(sse2, "sse2", __m128i, 2, _mm_setzero_si128, _mm_loadu_si128, _mm_add_epi64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        for length in [0u64, 1, 63, 64, 65, 1003] {
            let buffer: Vec<u64> = (1..=length).collect();
            assert_eq!(read_all(&buffer), length * (length + 1) / 2);
        }
    }

    /// The narrower widths, which this processor never chooses, do the same.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_width_gives_the_same() {
        let buffer: Vec<u64> = (1..=192).collect();
        // SAFETY: every x86-64 has SSE2; the length is three times 64.
        assert_eq!(unsafe { sse2::sum(&buffer) }, 192 * 193 / 2);
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the feature is detected; the length is three times 64.
            assert_eq!(unsafe { avx2::sum(&buffer) }, 192 * 193 / 2);
        }
    }
}
