//! Characters of 5 × 7 dots, scaled: what is burned into a test picture for people.

use crate::geometry::{PIXEL_BYTES, Size};

/// Dots of a character, and those from one to the next.
const WIDE: usize = 5;
pub(super) const HIGH: usize = 7;
const STEP: usize = WIDE + 1;

/// Seven rows of five dots, the highest of five bits at the left.
fn dots(character: char) -> [u8; HIGH] {
    match character {
        '0' => [0x0e, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0e],
        '1' => [0x04, 0x0c, 0x04, 0x04, 0x04, 0x04, 0x0e],
        '2' => [0x0e, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1f],
        '3' => [0x1f, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0e],
        '4' => [0x02, 0x06, 0x0a, 0x12, 0x1f, 0x02, 0x02],
        '5' => [0x1f, 0x10, 0x1e, 0x01, 0x01, 0x11, 0x0e],
        '6' => [0x06, 0x08, 0x10, 0x1e, 0x11, 0x11, 0x0e],
        '7' => [0x1f, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08],
        '8' => [0x0e, 0x11, 0x11, 0x0e, 0x11, 0x11, 0x0e],
        '9' => [0x0e, 0x11, 0x11, 0x0f, 0x01, 0x02, 0x0c],
        'r' => [0x00, 0x00, 0x16, 0x19, 0x10, 0x10, 0x10],
        'c' => [0x00, 0x00, 0x0e, 0x10, 0x10, 0x11, 0x0e],
        ':' => [0x00, 0x0c, 0x0c, 0x00, 0x0c, 0x0c, 0x00],
        '.' => [0x00, 0x00, 0x00, 0x00, 0x00, 0x0c, 0x0c],
        _ => [0; HIGH],
    }
}

/// Pixels that a text takes in width, without the gap behind its last character.
pub(super) fn text_width(text: &str, scale: usize) -> usize {
    (text.chars().count() * STEP).saturating_sub(1) * scale
}

/// Writes a text with its upper left corner at (`left`, `top`), all channels of this tone; what is outside of
/// the frame is left out.
pub(super) fn write_text(
    frame: &mut [u8],
    size: Size,
    (left, top): (usize, usize),
    scale: usize,
    tone: u8,
    text: &str,
) {
    for (line, pixels) in frame.chunks_exact_mut(size.line_bytes()).skip(top).take(HIGH * scale).enumerate() {
        for (index, character) in text.chars().enumerate() {
            let row = dots(character)[line / scale];
            for dot in (0..WIDE).filter(|dot| row >> (WIDE - 1 - dot) & 1 == 1) {
                let from = (left + (index * STEP + dot) * scale) * PIXEL_BYTES;
                let to = (from + scale * PIXEL_BYTES).min(pixels.len());
                pixels.get_mut(from..to).unwrap_or_default().fill(tone);
            }
        }
    }
}
