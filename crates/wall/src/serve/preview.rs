//! Small pictures of what tiles show, for anyone who looks at the wall from afar: made only while somebody
//! does.

use super::counters::TileCounters;
use crate::control::Preview;
use crate::geometry::{PIXEL_BYTES, Size, TileId};
use std::sync::atomic::Ordering;

/// Pixels of a small picture's longer side.
const LONGER_SIDE: u32 = 160;
/// So often at most, nanoseconds.
const EVERY: u64 = 200_000_000;
/// anyone who has asked is taken to look for so long, nanoseconds.
const LOOKS_FOR: u64 = 5_000_000_000;

/// Somebody looks.
pub(crate) fn wanted(counters: &TileCounters, now: u64) {
    counters.preview_until.store(now + LOOKS_FOR, Ordering::Relaxed);
}

/// Makes a small picture of a frame, if somebody looks and the last one is old enough.
pub(crate) fn paint(counters: &TileCounters, size: Size, pixels: &[u8], now: u64) {
    if counters.preview_until.load(Ordering::Relaxed) < now
        || now.saturating_sub(counters.preview_at.load(Ordering::Relaxed)) < EVERY
    {
        return;
    }
    counters.preview_at.store(now, Ordering::Relaxed);
    counters.show_preview(|held| {
        let preview = held.get_or_insert_with(|| Preview {
            tile: TileId { row: 0, column: 0 },
            width: 0,
            height: 0,
            rgb: Vec::new(),
        });
        shrink(size, pixels, preview);
    });
}

/// The nearest pixels, on a raster of whole steps.
fn shrink(size: Size, pixels: &[u8], into: &mut Preview) {
    let step = size.width.max(size.height).div_ceil(LONGER_SIDE).max(1);
    let (width, height) = (size.width.div_ceil(step), size.height.div_ceil(step));
    (into.width, into.height) = (width as u16, height as u16);
    into.rgb.clear();
    for row in 0..height {
        let line = (row * step) as usize * size.line_bytes();
        for column in 0..width {
            let at = line + (column * step) as usize * PIXEL_BYTES;
            into.rgb.extend(pixels.get(at..at + PIXEL_BYTES).unwrap_or(&[0; PIXEL_BYTES]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pictures_are_made_while_somebody_looks() {
        let counters = TileCounters::default();
        let size = Size { width: 2560, height: 1600 };
        let pixels = vec![7; size.frame_bytes()];
        paint(&counters, size, &pixels, 1_000_000_000);
        assert_eq!(counters.preview(), None);
        wanted(&counters, 1_000_000_000);
        paint(&counters, size, &pixels, 1_000_000_001);
        let preview = counters.preview().expect("a picture");
        assert_eq!((preview.width, preview.height, preview.rgb.len()), (160, 100, 160 * 100 * 3));
        assert!(preview.rgb.iter().all(|value| *value == 7));
    }
}
