//! A frame's pixels made the window's: from 8-bit RGB to 32 bits a pixel, in the window's size, with the
//! frame's aspect.
//!
//! Of a frame larger than its place each pixel of the window is the mean of those that it covers (a box
//! filter); of a smaller one it is the nearest. A whole multiple therefore repeats pixels exactly, and at the
//! frame's own size nothing is computed at all.

use crate::geometry::{PIXEL_BYTES, Size};
use std::io;
use std::ops::Range;

/// Bytes of a pixel on the display.
pub(crate) const WINDOW_PIXEL_BYTES: usize = 4;

/// How the display orders the bytes of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    /// Blue, green, red, unused.
    Little,
    /// Unused, red, green, blue.
    Big,
}

/// Where a frame lies in a window, and what each of the window's pixels shows of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Fit {
    pub frame: Size,
    /// Pixels of the window.
    pub window: Size,
    /// The part of the window that shows the frame: its upper left corner, and its size. The rest is black.
    pub left: u32,
    pub top: u32,
    pub size: Size,
    columns: Vec<(u32, u32)>,
}

/// Buffers of [`Fit::paint`], kept from frame to frame.
#[derive(Debug, Default)]
pub(crate) struct Brush {
    line: Vec<u8>,
    sums: Vec<u32>,
}

/// The pixels of `of` that pixel `at` of `within` shows: at least one.
fn shown_pixels(at: u32, of: u32, within: u32) -> Range<u32> {
    let edge = |at: u32| (u64::from(at) * u64::from(of) / u64::from(within.max(1))) as u32;
    let from = edge(at);
    from..edge(at + 1).max(from + 1)
}

impl Fit {
    /// The largest size of the frame's aspect that fits, in the middle.
    pub(crate) fn new(frame: Size, window: Size) -> Fit {
        let size = largest(frame, window);
        let columns = (0..size.width).map(|x| shown_pixels(x, frame.width, size.width));
        Fit {
            frame,
            window,
            left: (window.width - size.width) / 2,
            top: (window.height - size.height) / 2,
            size,
            columns: columns.map(|columns| (columns.start, columns.end)).collect(),
        }
    }

    /// Bytes of a line of the shown part.
    pub(crate) fn line_bytes(&self) -> usize {
        self.size.width as usize * WINDOW_PIXEL_BYTES
    }

    /// Hands over the lines of the shown part, from its upper edge down.
    pub(crate) fn paint(
        &self,
        frame: &[u8],
        order: ByteOrder,
        brush: &mut Brush,
        mut line: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        brush.line.resize(self.line_bytes(), 0);
        let mut painted = 0..0;
        for y in 0..self.size.height {
            let rows = shown_pixels(y, self.frame.height, self.size.height);
            // A frame made larger repeats its lines.
            if rows != painted {
                self.paint_line(frame, rows.clone(), order, brush);
                painted = rows;
            }
            line(&brush.line)?;
        }
        Ok(())
    }

    fn paint_line(&self, frame: &[u8], rows: Range<u32>, order: ByteOrder, brush: &mut Brush) {
        let bytes = self.frame.line_bytes();
        let row = |row: u32| &frame[row as usize * bytes..][..bytes];
        let one = rows.len() == 1;
        if one && self.size.width == self.frame.width {
            convert_line(row(rows.start), order, &mut brush.line);
        } else if one && self.size.width > self.frame.width {
            let (from, to) = (row(rows.start), brush.line.chunks_exact_mut(WINDOW_PIXEL_BYTES));
            for ((column, _), to) in self.columns.iter().zip(to) {
                let at = *column as usize * PIXEL_BYTES;
                to.copy_from_slice(&window_pixel([from[at], from[at + 1], from[at + 2]], order));
            }
        } else {
            brush.sums.clear();
            brush.sums.resize(self.columns.len() * PIXEL_BYTES, 0);
            let height = rows.len() as u32;
            rows.for_each(|number| self.add(row(number), &mut brush.sums));
            self.divide(height, &brush.sums, order, &mut brush.line);
        }
    }

    /// Adds a line of the frame to the sums of the pixels that cover it.
    fn add(&self, from: &[u8], sums: &mut [u32]) {
        for ((first, end), sums) in self.columns.iter().zip(sums.chunks_exact_mut(PIXEL_BYTES)) {
            let covered = &from[*first as usize * PIXEL_BYTES..*end as usize * PIXEL_BYTES];
            for pixel in covered.chunks_exact(PIXEL_BYTES) {
                sums[0] += u32::from(pixel[0]);
                sums[1] += u32::from(pixel[1]);
                sums[2] += u32::from(pixel[2]);
            }
        }
    }

    /// The means, rounded. By multiplication, which takes half the time; exact for means of fewer than 4,096
    /// pixels, within 1 beyond.
    fn divide(&self, height: u32, sums: &[u32], order: ByteOrder, to: &mut [u8]) {
        let narrow = self.frame.width / self.size.width;
        // A column covers this many pixels of the frame, or one more.
        let inverse = |width: u32| {
            let covered = u64::from((width * height).max(1));
            ((1_u64 << 32).div_ceil(covered), covered / 2)
        };
        let inverses = [inverse(narrow), inverse(narrow + 1)];
        let pixels = self.columns.iter().zip(sums.chunks_exact(PIXEL_BYTES));
        for (((first, end), sums), to) in pixels.zip(to.chunks_exact_mut(WINDOW_PIXEL_BYTES)) {
            let (inverse, half) = inverses[usize::from(end - first > narrow)];
            let mean = |sum: u32| (((u64::from(sum) + half) * inverse) >> 32).min(255) as u8;
            to.copy_from_slice(&window_pixel([mean(sums[0]), mean(sums[1]), mean(sums[2])], order));
        }
    }
}

/// The largest size of this aspect within another; at least a pixel.
pub(crate) fn largest(aspect: Size, within: Size) -> Size {
    let (width, height) = (u64::from(aspect.width), u64::from(aspect.height));
    let (most_width, most_height) = (u64::from(within.width.max(1)), u64::from(within.height.max(1)));
    let (width, height) = if width * most_height <= height * most_width {
        (width * most_height / height.max(1), most_height)
    } else {
        (most_width, height * most_width / width.max(1))
    };
    Size { width: width.max(1) as u32, height: height.max(1) as u32 }
}

/// A pixel of the display; opaque, where its fourth byte says so.
#[inline]
fn window_pixel(rgb: [u8; PIXEL_BYTES], order: ByteOrder) -> [u8; WINDOW_PIXEL_BYTES] {
    let value = u32::from_be_bytes([0xff, rgb[0], rgb[1], rgb[2]]);
    match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    }
}

/// A line as it is: this is most of what a window costs.
fn convert_line(from: &[u8], order: ByteOrder, to: &mut [u8]) {
    let pixels = from.chunks_exact(PIXEL_BYTES).zip(to.chunks_exact_mut(WINDOW_PIXEL_BYTES));
    match order {
        ByteOrder::Little => {
            pixels.for_each(|(from, to)| to.copy_from_slice(&[from[2], from[1], from[0], 0xff]));
        }
        ByteOrder::Big => {
            pixels.for_each(|(from, to)| to.copy_from_slice(&[0xff, from[0], from[1], from[2]]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    fn painted(frame: &[u8], fit: &Fit, order: ByteOrder) -> Vec<u8> {
        let mut all = Vec::new();
        let done = fit.paint(frame, order, &mut Brush::default(), |line| {
            all.extend(line);
            Ok(())
        });
        done.expect("nothing can fail");
        all
    }

    #[test]
    fn at_its_own_size_a_frame_only_changes_its_byte_order() {
        let fit = Fit::new(size(2, 2), size(2, 2));
        let frame = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let little = [3, 2, 1, 255, 6, 5, 4, 255, 9, 8, 7, 255, 12, 11, 10, 255];
        assert_eq!(painted(&frame, &fit, ByteOrder::Little), little);
        assert_eq!(painted(&frame, &fit, ByteOrder::Big)[..8], [255, 1, 2, 3, 255, 4, 5, 6]);
    }

    #[test]
    fn a_window_of_another_aspect_has_bars_and_a_multiple_repeats_pixels() {
        let fit = Fit::new(size(2, 1), size(7, 8));
        assert_eq!((fit.left, fit.top, fit.size), (0, 2, size(7, 3)));
        let fit = Fit::new(size(2, 1), size(4, 10));
        assert_eq!((fit.left, fit.top, fit.size), (0, 4, size(4, 2)));
        let (a, b) = ([3, 2, 1, 255], [6, 5, 4, 255]);
        let line = [a, a, b, b].concat();
        assert_eq!(painted(&[1, 2, 3, 4, 5, 6], &fit, ByteOrder::Little), [line.clone(), line].concat());
    }

    #[test]
    fn a_smaller_window_shows_the_mean() {
        let fit = Fit::new(size(4, 2), size(2, 1));
        let frame: Vec<u8> = [[0; 3], [4; 3], [10; 3], [20; 3], [8; 3], [4; 3], [31; 3], [40; 3]].concat();
        assert_eq!(painted(&frame, &fit, ByteOrder::Little), [4, 4, 4, 255, 25, 25, 25, 255]);
    }

    proptest! {
        #[test]
        fn any_frame_fits_any_window_and_one_colour_stays_one(
            width in 1u32..40, height in 1u32..40, wide in 1u32..90, high in 1u32..90, value: u8,
        ) {
            let fit = Fit::new(size(width, height), size(wide, high));
            prop_assert!(fit.left + fit.size.width <= wide && fit.top + fit.size.height <= high);
            prop_assert!(fit.size.width == wide || fit.size.height == high);
            let frame = vec![value; fit.frame.frame_bytes()];
            let all = painted(&frame, &fit, ByteOrder::Little);
            prop_assert_eq!(all.len(), fit.line_bytes() * fit.size.height as usize);
            prop_assert!(all.chunks(4).all(|pixel| pixel == [value, value, value, 255]));
        }
    }
}
