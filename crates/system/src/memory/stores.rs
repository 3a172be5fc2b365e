//! Kernels that store: fill, copy, triad, each with plain stores and with streaming ones (non-temporal, past
//! the caches).
//!
//! A plain store to a line that is in no cache reads the line first (write-allocate) and writes it back
//! later: two crossings of the bus for one of payload. A streaming store has one. Loads and stores are
//! written as intrinsics, four vectors a turn, because a plain loop would become a call of memcpy, which
//! chooses its kind of store by itself.

/// How results are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Store {
    /// Through the caches.
    Plain,
    /// Past them (`MOVNTPD`).
    Streaming,
}

/// This processor has streaming stores that linerate knows how to use.
pub fn has_streaming() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Sets each word to the bits of `value`. Streaming where the processor has it, else plain.
pub fn fill(to: &mut [u64], value: f64, store: Store) {
    dispatch(Work::Fill, to, &[], &[], value, store);
}

/// `to[i] = from[i]`, as far as both reach.
pub fn copy(from: &[u64], to: &mut [u64], store: Store) {
    dispatch(Work::Copy, to, from, &[], 0.0, store);
}

/// `to[i] = one[i] + factor × other[i]` in double precision, as far as all reach.
pub fn triad(to: &mut [u64], one: &[u64], other: &[u64], factor: f64, store: Store) {
    dispatch(Work::Triad, to, one, other, factor, store);
}

/// What is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Fill,
    Copy,
    Triad,
}

fn dispatch(work: Work, to: &mut [u64], one: &[u64], other: &[u64], value: f64, store: Store) {
    let length = match work {
        Work::Fill => to.len(),
        Work::Copy => to.len().min(one.len()),
        Work::Triad => to.len().min(one.len()).min(other.len()),
    };
    let to = &mut to[..length];
    // The ends that fill no vector, and all of it where there are no vectors.
    #[cfg(target_arch = "x86_64")]
    let (head, body) = x86::vectors(work, to, one, other, value, store);
    #[cfg(not(target_arch = "x86_64"))]
    let (head, body) = {
        let _ = store;
        (0, 0)
    };
    for at in (0..head).chain(head + body..length) {
        to[at] = match work {
            Work::Fill => value.to_bits(),
            Work::Copy => one[at],
            Work::Triad => (f64::from_bits(one[at]) + value * f64::from_bits(other[at])).to_bits(),
        };
    }
    std::hint::black_box(to);
}

/// The same loop for each width of vector.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Store, Work};
    use std::arch::x86_64::*;

    /// Does the aligned middle of `to`; gives the words before it and the words done.
    pub(super) fn vectors(
        work: Work,
        to: &mut [u64],
        one: &[u64],
        other: &[u64],
        value: f64,
        store: Store,
    ) -> (usize, usize) {
        let head = to.as_ptr().align_offset(64).min(to.len());
        let body = (to.len() - head) / 32 * 32;
        let target = to[head..].as_mut_ptr().cast::<f64>();
        // A kernel without a source gets the target for one and does not look at it.
        let source = |words: &[u64]| match words.get(head..) {
            Some(words) if words.len() >= body => words.as_ptr().cast::<f64>(),
            _ => target.cast_const(),
        };
        let (one, other) = (source(one), source(other));
        let wide = std::arch::is_x86_feature_detected!("avx512f");
        let middle = std::arch::is_x86_feature_detected!("avx");
        // SAFETY: the features are detected; `target` is aligned to 64 bytes and has `body` words, a multiple
        // of 32; the sources that `work` reads have as many (`dispatch` cut `to` to the shortest), and `&mut`
        // keeps them apart from the target.
        unsafe {
            match (work, store) {
                _ if body == 0 => {}
                (Work::Fill, Store::Plain) if wide => avx512::fill::<false>(target, body, value),
                (Work::Fill, Store::Streaming) if wide => avx512::fill::<true>(target, body, value),
                (Work::Copy, Store::Plain) if wide => avx512::copy::<false>(target, one, body),
                (Work::Copy, Store::Streaming) if wide => avx512::copy::<true>(target, one, body),
                (Work::Triad, Store::Plain) if wide => {
                    avx512::triad::<false>(target, one, other, body, value)
                }
                (Work::Triad, Store::Streaming) if wide => {
                    avx512::triad::<true>(target, one, other, body, value);
                }
                (Work::Fill, Store::Plain) if middle => avx::fill::<false>(target, body, value),
                (Work::Fill, Store::Streaming) if middle => avx::fill::<true>(target, body, value),
                (Work::Copy, Store::Plain) if middle => avx::copy::<false>(target, one, body),
                (Work::Copy, Store::Streaming) if middle => avx::copy::<true>(target, one, body),
                (Work::Triad, Store::Plain) if middle => avx::triad::<false>(target, one, other, body, value),
                (Work::Triad, Store::Streaming) if middle => {
                    avx::triad::<true>(target, one, other, body, value);
                }
                (Work::Fill, Store::Plain) => sse2::fill::<false>(target, body, value),
                (Work::Fill, Store::Streaming) => sse2::fill::<true>(target, body, value),
                (Work::Copy, Store::Plain) => sse2::copy::<false>(target, one, body),
                (Work::Copy, Store::Streaming) => sse2::copy::<true>(target, one, body),
                (Work::Triad, Store::Plain) => sse2::triad::<false>(target, one, other, body, value),
                (Work::Triad, Store::Streaming) => sse2::triad::<true>(target, one, other, body, value),
            }
            if store == Store::Streaming {
                // Streaming stores are weakly ordered: what follows must find them done.
                _mm_sfence();
            }
        }
        (head, body)
    }

    /// Fill, copy and triad for one width: its features, its number of words, and its instructions.
    macro_rules! width {
        ($name:ident, $feature:literal, $words:literal, $set:ident, $load:ident, $store:ident, $stream:ident, $add:ident, $mul:ident) => {
            mod $name {
                use super::*;

                /// # Safety
                /// The processor has the feature; `to` is aligned to 64 bytes; all have `words` words, a
                /// multiple of 32.
                #[target_feature(enable = $feature)]
                pub(super) unsafe fn fill<const STREAM: bool>(to: *mut f64, words: usize, value: f64) {
                    let value = $set(value);
                    let mut at = 0;
                    while at < words {
                        for vector in 0..4 {
                            // SAFETY: within `words`, aligned; both by the contract.
                            unsafe {
                                let place = to.add(at + vector * $words);
                                if STREAM { $stream(place, value) } else { $store(place, value) }
                            }
                        }
                        at += 4 * $words;
                    }
                }

                /// # Safety
                /// As `fill`.
                #[target_feature(enable = $feature)]
                pub(super) unsafe fn copy<const STREAM: bool>(to: *mut f64, from: *const f64, words: usize) {
                    let mut at = 0;
                    while at < words {
                        for vector in 0..4 {
                            // SAFETY: within `words`, aligned; both by the contract.
                            unsafe {
                                let value = $load(from.add(at + vector * $words));
                                let place = to.add(at + vector * $words);
                                if STREAM { $stream(place, value) } else { $store(place, value) }
                            }
                        }
                        at += 4 * $words;
                    }
                }

                /// # Safety
                /// As `fill`.
                #[target_feature(enable = $feature)]
                pub(super) unsafe fn triad<const STREAM: bool>(
                    to: *mut f64,
                    one: *const f64,
                    other: *const f64,
                    words: usize,
                    factor: f64,
                ) {
                    let factor = $set(factor);
                    let mut at = 0;
                    while at < words {
                        for vector in 0..4 {
                            // SAFETY: within `words`, aligned; both by the contract.
                            unsafe {
                                let offset = at + vector * $words;
                                let value =
                                    $add($load(one.add(offset)), $mul(factor, $load(other.add(offset))));
                                let place = to.add(offset);
                                if STREAM { $stream(place, value) } else { $store(place, value) }
                            }
                        }
                        at += 4 * $words;
                    }
                }
            }
        };
    }

    width!(
        avx512,
        "avx512f",
        8,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_store_pd,
        _mm512_stream_pd,
        _mm512_add_pd,
        _mm512_mul_pd
    );
    width!(
        avx,
        "avx",
        4,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_store_pd,
        _mm256_stream_pd,
        _mm256_add_pd,
        _mm256_mul_pd
    );
    width!(sse2, "sse2", 2, _mm_set1_pd, _mm_loadu_pd, _mm_store_pd, _mm_stream_pd, _mm_add_pd, _mm_mul_pd);

    #[cfg(test)]
    mod tests {
        use super::*;

        /// The narrower widths, which this processor never chooses, do the same.
        #[test]
        fn every_width_gives_the_same() {
            let one: Vec<f64> = (0..96).map(f64::from).collect();
            let mut arena = super::super::super::Arena::new(96 * 8, None).expect("a page");
            let to = arena.words().as_mut_ptr().cast::<f64>();
            let want: Vec<f64> = one.iter().map(|x| x + 3.0 * x).collect();
            for width in 0..2 {
                // SAFETY: every x86-64 has SSE2, AVX is asked for; the arena is aligned to a huge page and
                // has 96 words, as `one`.
                let got = unsafe {
                    match width {
                        0 => sse2::triad::<true>(to, one.as_ptr(), one.as_ptr(), 96, 3.0),
                        _ if std::arch::is_x86_feature_detected!("avx") => {
                            avx::triad::<false>(to, one.as_ptr(), one.as_ptr(), 96, 3.0);
                        }
                        _ => continue,
                    }
                    _mm_sfence();
                    std::slice::from_raw_parts(to, 96).to_vec()
                };
                assert_eq!(got, want);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths around whole vectors, starts off the alignment.
    #[test]
    fn every_word_is_stored_and_no_other() {
        for store in [Store::Plain, Store::Streaming] {
            for length in [0usize, 1, 7, 31, 32, 33, 64, 100, 1003] {
                for start in [0usize, 1, 5] {
                    let one: Vec<u64> = (0..length).map(|i| (i as f64).to_bits()).collect();
                    let other: Vec<u64> = (0..length).map(|i| (2.0 * i as f64).to_bits()).collect();
                    let mut to = vec![9u64; start + length + 3];
                    copy(&one, &mut to[start..start + length], store);
                    assert_eq!(to[start..start + length], one[..]);
                    triad(&mut to[start..start + length], &one, &other, 3.0, store);
                    let want: Vec<u64> = (0..length).map(|i| (7.0 * i as f64).to_bits()).collect();
                    assert_eq!(to[start..start + length], want[..]);
                    fill(&mut to[start..start + length], 1.5, store);
                    assert!(to[start..start + length].iter().all(|word| *word == 1.5f64.to_bits()));
                    assert!(to[..start].iter().chain(&to[start + length..]).all(|word| *word == 9));
                }
            }
        }
    }

    #[test]
    fn the_shortest_array_bounds_the_work() {
        let mut to = vec![0u64; 100];
        copy(&[1; 40], &mut to, Store::Plain);
        assert_eq!(to.iter().sum::<u64>(), 40);
        triad(&mut to, &[0; 50], &[0; 10], 1.0, Store::Streaming);
        assert_eq!(to.iter().sum::<u64>(), 30);
    }
}
