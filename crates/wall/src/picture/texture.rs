//! What the test picture is painted with. Its cloth: a small set of long lines, of which each line of the
//! picture is a shifted copy. The disc that travels over the wall: a lit ball, painted once and laid over each
//! frame. Characters of 5 × 7 dots, scaled: what is burned into it for people.
//!
//! A line of the cloth costs one copy at memory speed, and yet the picture flows in both directions: how far a
//! line is shifted and which of the set it is, both swing with height and time.

use crate::geometry::{PIXEL_BYTES, Size};
use std::f64::consts::TAU;

/// Lines of the set, at least and at most: each line of the picture its own, where the caches allow.
const LEVELS: (usize, usize) = (64, 1024);
/// After so many pixels a line repeats, at most: all lines together fit the caches. A prime, so that no two
/// tiles of a row are alike.
const LONGEST_PERIOD: usize = 4099;
/// Places of the sine's table.
const PLACES: usize = 1 << 12;

/// From dark to light, as in a night sky with an aurora in it.
const PALETTE: [[f64; 3]; 8] = [
    [6.0, 8.0, 30.0],
    [18.0, 28.0, 84.0],
    [22.0, 74.0, 140.0],
    [16.0, 140.0, 150.0],
    [70.0, 190.0, 150.0],
    [120.0, 96.0, 190.0],
    [214.0, 84.0, 140.0],
    [250.0, 168.0, 96.0],
];

/// The set of lines; the last is followed by the first.
#[derive(Debug)]
pub(super) struct Texture {
    bytes: Vec<u8>,
    /// Bytes from one line of the set to the next.
    stride: usize,
    /// Pixels after which a line repeats.
    pub(super) period: usize,
    /// Lines of the set.
    pub(super) levels: usize,
}

impl Texture {
    /// For pictures of this width and height that are painted in runs of at most `run` pixels.
    pub(super) fn new(width: usize, height: usize, run: usize) -> Texture {
        let sine: Vec<f64> = (0..PLACES).map(|place| (TAU * place as f64 / PLACES as f64).sin()).collect();
        let period = width.clamp(1, LONGEST_PERIOD);
        let levels = height.clamp(LEVELS.0, LEVELS.1);
        let stride = (period + run) * PIXEL_BYTES;
        let mut bytes = vec![0; levels * stride];
        for (level, line) in bytes.chunks_exact_mut(stride).enumerate() {
            let down = level as f64 / levels as f64;
            let (once, _) = line.split_at_mut(period * PIXEL_BYTES);
            for (index, pixel) in once.chunks_exact_mut(PIXEL_BYTES).enumerate() {
                pixel.copy_from_slice(&colour(&sine, index as f64 / period as f64, down));
            }
            let mut filled = period * PIXEL_BYTES;
            while filled < stride {
                let more = filled.min(stride - filled);
                line.copy_within(..more, filled);
                filled += more;
            }
        }
        Texture { bytes, stride, period, levels }
    }

    /// `bytes` bytes of a line of the set from a pixel on, both taken around.
    pub(super) fn run(&self, level: usize, pixel: usize, bytes: usize) -> &[u8] {
        let start = level % self.levels * self.stride + pixel % self.period * PIXEL_BYTES;
        &self.bytes[start..start + bytes]
    }
}

/// Of a place on the cloth; both coordinates go round at 1. What bends it as a whole is not here: the lines
/// are shifted for that, to the pixel, while here each level is a step.
fn colour(sine: &[f64], across: f64, down: f64) -> [u8; 3] {
    let wave = |turns: f64| sine[((turns + 1.0) * PLACES as f64) as usize % PLACES];
    let warp = across + 0.04 * wave(2.0 * down + across);
    let height = 0.42
        + 0.30 * wave(warp)
        + 0.16 * wave(2.0 * warp + 1.0 - down)
        + 0.09 * wave(3.0 * warp + 2.0 * down);
    let place = height.clamp(0.0, 1.0) * (PALETTE.len() - 1) as f64;
    let (index, part) = (place as usize, place.fract());
    let (low, high) = (PALETTE[index], PALETTE[(index + 1).min(PALETTE.len() - 1)]);
    // Smoothstep: no kinks where two colours meet.
    let part = part * part * (3.0 - 2.0 * part);
    let folds = 0.86 + 0.14 * wave(5.0 * warp + 3.0 * down);
    std::array::from_fn(|channel| ((low[channel] + (high[channel] - low[channel]) * part) * folds) as u8)
}

/// Pixels of a ball's radius at most, so that its picture stays in the caches.
const LARGEST_RADIUS: usize = 512;
/// Where the light comes from: left, above, in front.
const BALL_LIGHT: [f64; 3] = [-0.45, -0.55, 0.70];
const BALL_COLOUR: [f64; 3] = [255.0, 176.0, 64.0];

/// The picture of a ball: red, green, blue, all weighted, and how much of what is behind it stays (0 to 255).
#[derive(Debug)]
pub(super) struct Ball {
    pub(super) radius: usize,
    pixels: Vec<[u8; 4]>,
}

impl Ball {
    pub(super) fn new(radius: usize) -> Ball {
        let radius = radius.clamp(1, LARGEST_RADIUS);
        let side = 2 * radius;
        let pixels = (0..side * side).map(|index| shade(index % side, index / side, radius as f64)).collect();
        Ball { radius, pixels }
    }

    /// Lays one of its lines (0 to 2 × radius) over a line of a frame; `left` is where it begins, maybe
    /// outside of the line.
    pub(super) fn lay(&self, line: usize, over: &mut [u8], left: i64) {
        let side = 2 * self.radius;
        let width = (over.len() / PIXEL_BYTES) as i64;
        let (from, to) = (left.clamp(0, width), (left + side as i64).clamp(0, width));
        if from >= to {
            return;
        }
        let own = &self.pixels[line * side..(line + 1) * side][(from - left) as usize..(to - left) as usize];
        let under = &mut over[from as usize * PIXEL_BYTES..to as usize * PIXEL_BYTES];
        for (pixel, [red, green, blue, rest]) in under.chunks_exact_mut(PIXEL_BYTES).zip(own) {
            for (channel, own) in pixel.iter_mut().zip([red, green, blue]) {
                *channel = own.saturating_add((u16::from(*channel) * u16::from(*rest) / 255) as u8);
            }
        }
    }
}

/// One pixel of the picture.
fn shade(column: usize, row: usize, radius: f64) -> [u8; 4] {
    let (x, y) = ((column as f64 + 0.5) / radius - 1.0, (row as f64 + 0.5) / radius - 1.0);
    let distance = (x * x + y * y).sqrt();
    // Half a pixel inside and outside of the edge are blended.
    let cover = ((1.0 - distance) * radius + 0.5).clamp(0.0, 1.0);
    let z = (1.0 - distance * distance).max(0.0).sqrt();
    let light = (x * BALL_LIGHT[0] + y * BALL_LIGHT[1] + z * BALL_LIGHT[2]).max(0.0);
    let shine = light.powi(40) * 190.0;
    let lit = 0.16 + 0.84 * light;
    let tone = |channel: usize| ((BALL_COLOUR[channel] * lit + shine).min(255.0) * cover) as u8;
    [tone(0), tone(1), tone(2), ((1.0 - cover) * 255.0) as u8]
}

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
