//! Which pixels of a frame have come, exactly: a bit each.
//!
//! Duplicates, overlapping runs and forged ones must not make a frame look whole. A bit a pixel costs a
//! hundredth of copying the pixel, and is right whatever comes.

const BITS: usize = u64::BITS as usize;

/// The pixels of one frame.
#[derive(Debug)]
pub(crate) struct Coverage {
    words: Box<[u64]>,
    pixels: usize,
    covered: usize,
}

impl Coverage {
    /// None of so many pixels has come.
    pub(crate) fn new(pixels: usize) -> Coverage {
        Coverage { words: vec![0; pixels.div_ceil(BITS)].into_boxed_slice(), pixels, covered: 0 }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
        self.covered = 0;
    }

    /// These pixels came; how many of them had not come before. What lies beyond the frame counts for
    /// nothing.
    pub(crate) fn add(&mut self, first: usize, count: usize) -> usize {
        let end = first.saturating_add(count).min(self.pixels);
        let (mut at, mut new) = (first, 0);
        while at < end {
            let (word, bit) = (at / BITS, at % BITS);
            let here = (BITS - bit).min(end - at);
            let mask = (u64::MAX >> (BITS - here)) << bit;
            new += (mask & !self.words[word]).count_ones() as usize;
            self.words[word] |= mask;
            at += here;
        }
        self.covered += new;
        new
    }

    /// Every pixel has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.covered == self.pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn agrees_with_a_set_of_pixels(pixels in 1usize..600, runs in prop::collection::vec((0usize..700, 0usize..300), 0..40)) {
            let (mut coverage, mut set) = (Coverage::new(pixels), HashSet::new());
            for (first, count) in runs {
                let before = set.len();
                set.extend((first..first + count).filter(|pixel| *pixel < pixels));
                prop_assert_eq!(coverage.add(first, count), set.len() - before);
                prop_assert_eq!(coverage.covered, set.len());
                prop_assert_eq!(coverage.is_whole(), set.len() == pixels);
            }
            coverage.clear();
            prop_assert_eq!(coverage.add(0, usize::MAX), pixels);
        }
    }
}
