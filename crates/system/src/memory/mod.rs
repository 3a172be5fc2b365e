//! Memory bandwidth kernels: reading, writing, copying with the widest vectors this processor has, plain and past the caches, at
//! strides, and one access after the other.

mod arena;
mod chase;
mod stores;
mod stride;

pub use arena::Arena;
pub use chase::{chase, link_cycle};
pub use stores::{Store, copy, fill, has_streaming, triad};
pub use stride::{Strided, strided};

/// The widest vectors that the kernels use on this processor, for the report.
pub fn vectors() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if std::arch::is_x86_feature_detected!("avx") {
            return "AVX";
        }
        "SSE2"
    }
    #[cfg(not(target_arch = "x86_64"))]
    "the compiler's vectors"
}

/// Sums the buffer so that every cache line of it is read; the sum keeps the compiler from leaving the reads out.
pub fn read_all(buffer: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            return unsafe { sum_avx512(buffer) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { sum_avx2(buffer) };
        }
    }
    sum(buffer)
}

/// The same loop for each vector width: 64 independent sums hide the adders' latency, the compiler makes vectors of them.
#[inline(always)]
fn sum(buffer: &[u64]) -> u64 {
    let mut sums = [0u64; 64];
    let chunks = buffer.chunks_exact(64);
    let rest: u64 = chunks.remainder().iter().fold(0, |sum, word| sum.wrapping_add(*word));
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(rest, |sum, word| sum.wrapping_add(*word))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(buffer: &[u64]) -> u64 {
    sum(buffer)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512(buffer: &[u64]) -> u64 {
    sum(buffer)
}

/// Copies as the C library's memcpy does it. Pieces below a share of the last cache are written with plain stores, which read the
/// line first: that is how a program's own copies cost.
pub fn copy_all(from: &[u64], to: &mut [u64]) {
    let length = from.len().min(to.len());
    to[..length].copy_from_slice(&from[..length]);
    // Inlined, a copy that nobody reads before the next one would be left out (it was, in a trial: 10^15 bytes a second).
    std::hint::black_box(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read() {
        let buffer: Vec<u64> = (0..1003).collect();
        assert_eq!(read_all(&buffer), 1002 * 1003 / 2);
    }

    #[test]
    fn every_word_is_copied() {
        let from: Vec<u64> = (0..1003).collect();
        let mut to = vec![0; 1003];
        copy_all(&from, &mut to);
        assert_eq!(from, to);
    }
}
