//! Memory bandwidth kernels: reading, writing, copying with the widest vectors this processor has, plain and
//! past the caches, at strides, and one access after the other.

mod arena;
mod chase;
mod loads;
mod stores;
mod stride;

pub use arena::Arena;
pub use chase::{chase, link_cycle};
pub use loads::read_all;
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

/// Copies as the C library's memcpy does it. Pieces below a share of the last cache are written with plain
/// stores, which read the line first: that is how a program's own copies cost.
pub fn copy_all(from: &[u64], to: &mut [u64]) {
    let length = from.len().min(to.len());
    to[..length].copy_from_slice(&from[..length]);
    // Inlined, a copy that nobody reads before the next one would be left out (it was, in a trial: 10^15
    // bytes a second).
    std::hint::black_box(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_copied() {
        let from: Vec<u64> = (0..1003).collect();
        let mut to = vec![0; 1003];
        copy_all(&from, &mut to);
        assert_eq!(from, to);
    }
}
