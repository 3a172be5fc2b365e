//! Memory bandwidth kernels: reading, writing, copying with the widest vectors this processor has, plain and
//! past the caches, at strides, and one access after the other.
//!
//! They work on an [`Arena`]: one mapping, on huge pages where the kernel gives them, on one NUMA node where
//! that is asked for.
//!
//! The kernel that only loads sums every word, in eight vectors at once so that no addition waits for the one before it.
//! By intrinsics, because the compiler kept an array of sums in memory and stored it on each turn: 64 GB/s from
//! a first-level cache that gives three times as much.

mod stores;
mod stride;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
pub use stores::{Store, copy, fill, has_streaming, triad};
pub use stride::{Strided, chase, link_cycle, strided};

/// Alignment of a transparent huge page; the mapping starts and ends on one.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Largest node number that mbind is given.
const MOST_NODES: u32 = 1024;

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

/// Anonymous memory, zero until it is written; pages are taken when first touched, and go with it.
#[derive(Debug)]
pub struct Arena {
    start: NonNull<u64>,
    mapped: NonNull<u8>,
    mapped_bytes: usize,
    words: usize,
}

// SAFETY: plain memory that the arena owns alone; access goes through `&self` and `&mut self`.
unsafe impl Send for Arena {}

impl Arena {
    /// Room for `bytes`, rounded down to words of 8. With a node, its pages come from that node and from no
    /// other.
    pub fn new(bytes: usize, node: Option<u32>) -> io::Result<Self> {
        let words = bytes / 8;
        let room = bytes
            .checked_next_multiple_of(HUGE_PAGE_BYTES)
            .and_then(|room| room.max(HUGE_PAGE_BYTES).checked_add(HUGE_PAGE_BYTES))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // NORESERVE: a part of it may never be touched.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of our own.
        let address =
            unsafe { mmap_anonymous(std::ptr::null_mut(), room, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        let mapped = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let offset = mapped.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the mapping has a huge page more than it needs, so the aligned start lies within it.
        let start = unsafe { mapped.add(offset) }.cast::<u64>();
        let arena = Arena { start, mapped, mapped_bytes: room, words };
        // SAFETY: advice on our own mapping; huge pages are asked for, and a refusal changes nothing.
        let _ = unsafe { madvise(mapped.as_ptr().cast(), room, Advice::LinuxHugepage) };
        if let Some(node) = node {
            arena.bind(node)?;
        }
        Ok(arena)
    }

    /// mbind(2) with MPOL_BIND, before the first touch.
    fn bind(&self, node: u32) -> io::Result<()> {
        if node >= MOST_NODES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut mask = [0u64; (MOST_NODES / 64) as usize];
        mask[(node / 64) as usize] = 1 << (node % 64);
        // SAFETY: the range is our own mapping, the mask outlives the call and has the bits that `maxnode`
        // tells (one more: the kernel counts exclusively).
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.mapped.as_ptr(),
                self.mapped_bytes,
                libc::MPOL_BIND,
                mask.as_ptr(),
                u64::from(MOST_NODES) + 1,
                0,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// All of it, to change. Any bits are a number.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: `words` words from the aligned start lie within the mapping, which is readable, writable
        // and ours; `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice outlives `self`.
        let _ = unsafe { munmap(self.mapped.as_ptr().cast(), self.mapped_bytes) };
    }
}

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
    fn every_word_is_copied() {
        let from: Vec<u64> = (0..1003).collect();
        let mut to = vec![0; 1003];
        copy_all(&from, &mut to);
        assert_eq!(from, to);
    }

    #[test]
    fn it_is_zero_aligned_and_our_own() {
        let mut arena = Arena::new((3 << 20) + 8, None).expect("three MiB");
        let words = arena.words();
        assert_eq!(words.len(), (3 << 17) + 1);
        assert!((words.as_ptr() as usize).is_multiple_of(HUGE_PAGE_BYTES));
        assert!(words.iter().all(|word| *word == 0));
        words.fill(7);
    }

    #[test]
    fn a_node_that_is_not_there_is_an_error() {
        assert!(Arena::new(4096, Some(MOST_NODES)).is_err());
        assert!(Arena::new(4096, Some(MOST_NODES - 1)).is_err(), "no machine of ours has as many");
    }

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
